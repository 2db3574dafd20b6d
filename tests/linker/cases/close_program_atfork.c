//# Area: unloading
//# Lib: dep.so
//# Lib: main.so
//# Modes: program; other domains keep what they have loaded
/* Fork handlers of an unloaded library are gone. */
#include "case.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef DEP
static void before(void) { say("before"); }
void use(void) { pthread_atfork(before, NULL, NULL); }
#else
static void fork_once(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
}
void test(void)
{
    void *dep = dlopen("./dep.so", RTLD_NOW);
    ((void (*)(void))dlsym(dep, "use"))();
    fork_once();
    dlclose(dep);
    fork_once();
    say("done");
}
#endif
