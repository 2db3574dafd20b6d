//# Area: tls threads
//# Lib: late.so
//# Lib: main.so
/* A thread that ran before a module was loaded has its data too. */
#include "case.h"
#include <pthread.h>
#include <semaphore.h>
#ifdef LATE
__thread int value = 30, zero;
int next(void) { return ++value + ++zero; }
#else
static int (*next)(void);
static sem_t ready, go;
static void *run(void *unused)
{
    sem_post(&ready);
    sem_wait(&go);
    return (void *)(intptr_t)(next() * 100 + next());
}
void test(void)
{
    if (next)
        return;
    pthread_t thread;
    void *result;
    sem_init(&ready, 0, 0);
    sem_init(&go, 0, 0);
    pthread_create(&thread, NULL, run, NULL);
    sem_wait(&ready);
    next = (int (*)(void))dlsym(dlopen("./late.so", RTLD_NOW), "next");
    sem_post(&go);
    pthread_join(thread, &result);
    say("%d %d", (int)(intptr_t)result, next());
}
#endif
