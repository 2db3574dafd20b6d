//# Area: fork
//# Lib: a.so
//# Lib: main.so
/* The child of a fork during another thread's lookups can look up. */
#include "case.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef A
int value = 1;
#else
static volatile int stop;
static void *run(void *unused)
{
    while (!stop) {
        Dl_info info;
        dladdr((void *)test, &info);
        dlsym(RTLD_DEFAULT, "nobody_at_all");
        dlerror();
    }
    return NULL;
}
void test(void)
{
    pthread_t thread;
    stop = 0;
    pthread_create(&thread, NULL, run, NULL);
    int good = 0;
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            Dl_info info;
            alarm(20);
            int found = dlsym(RTLD_DEFAULT, "malloc") && !dlsym(RTLD_DEFAULT, "nobody_at_all");
            _exit(found && dladdr((void *)test, &info) ? 42 : 0);
        }
        int status = -1;
        waitpid(pid, &status, 0);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 42;
    }
    stop = 1;
    pthread_join(thread, NULL);
    say("%d", good);
}
#endif
