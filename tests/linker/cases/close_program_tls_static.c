//# Area: unloading tls
//# Lib: dep.so -ftls-model=initial-exec
//# Lib: main.so
//# Modes: program; other domains keep what they have loaded
/* Static TLS is given back by an unload, and begins anew for its next user, also in threads
   that wrote to it before: more is asked for here, one after the other, than there is at once. */
#include "case.h"
#include <pthread.h>
#ifdef DEP
static __thread int value = 7;
static __thread char zeroes[800];
int next(void) { return value++ + zeroes[5]++ + zeroes[799]++; }
#else
static int (*next)(void);
static pthread_barrier_t barrier;
static int there;
static void *run(void *unused)
{
    for (int i = 0; i < 100; i++) {
        pthread_barrier_wait(&barrier);
        there += next() == 7 && next() == 10;
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}
void test(void)
{
    pthread_t thread;
    int here = 0;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, run, NULL);
    for (int i = 0; i < 100; i++) {
        void *dep = dlopen("./dep.so", RTLD_NOW);
        if (!dep)
            say("load %d: %s", i, dlerror());
        next = (int (*)(void))dlsym(dep, "next");
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        here += next() == 7 && next() == 10;
        dlclose(dep);
    }
    pthread_join(thread, NULL);
    say("%d here, %d there", here, there);
}
#endif
