//# Area: fork
//# Lib: slow.so
//# Lib: other.so
//# Lib: main.so
//# Steps: 1
//# Modes: one program interleaved; the environment, by which the constructor finds them, is the process's
/* The child of a fork, while another thread runs constructors, may load. */
#include "case.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined SLOW
CONSTRUCTOR static void begin(void)
{
    const char *text = getenv("CASE_SEMAPHORES");
    unsigned long a = 0, b = 0;
    sscanf(text, "%lx %lx", &a, &b);
    sem_post((sem_t *)a);
    sem_wait((sem_t *)b);
}
#elif defined OTHER
int other(void) { return 21; }
#else
static sem_t entered, go;
static void *run(void *unused) { return dlopen("./slow.so", RTLD_NOW); }
void test(void)
{
    char text[64];
    snprintf(text, sizeof text, "%lx %lx", (unsigned long)&entered, (unsigned long)&go);
    sem_init(&entered, 0, 0);
    sem_init(&go, 0, 0);
    setenv("CASE_SEMAPHORES", text, 1);
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    sem_wait(&entered);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        void *handle = dlopen("./other.so", RTLD_NOW);
        _exit(handle ? ((int (*)(void))dlsym(handle, "other"))() : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    sem_post(&go);
    void *result;
    pthread_join(thread, &result);
    say("%d %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1, result != NULL);
}
#endif
