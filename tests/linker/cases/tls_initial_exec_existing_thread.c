//# Area: tls threads
//# Lib: late.so -ftls-model=initial-exec
//# Lib: main.so
//# Open: main.so
/* Initialised initial-exec data in a thread that ran before the object was loaded. */
#include "case.h"
#include <pthread.h>
#ifdef LATE
static __thread int a = 5;
int next(void) { return a++; }
#else
static int (*next)(void);
static int stage;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static void wait_for(int wanted)
{
    pthread_mutex_lock(&lock);
    while (stage < wanted)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}
static void reach(int wanted)
{
    pthread_mutex_lock(&lock);
    stage = wanted;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
static void *run(void *unused)
{
    reach(1);
    wait_for(2);
    int first = next();
    return (void *)(intptr_t)(first * 10 + next());
}
void test(void)
{
    if (next)
        return;
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, run, NULL);
    wait_for(1);
    void *handle = dlopen("./late.so", RTLD_NOW);
    next = (int (*)(void))dlsym(handle, "next");
    reach(2);
    pthread_join(thread, &result);
    say("there %d here %d", (int)(intptr_t)result, next());
}
#endif
