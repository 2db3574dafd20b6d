//# Area: tls threads
//# Lib: one.so
//# Lib: two.so
//# Lib: three.so
//# Lib: main.so
/* Modules come one after the other while threads use the earlier ones. */
#include "case.h"
#include <pthread.h>
#ifndef MAIN
__thread int value = __LINE__;
int bump(void) { return value++ - __LINE__ + 1; }
#else
static void *run(void *bump) { return (void *)(intptr_t)(((int (*)(void))bump)() + 100); }
void test(void)
{
    static const char *const names[] = {"./one.so", "./two.so", "./three.so"};
    for (int i = 0; i < 3; i++) {
        int (*bump)(void) = (int (*)(void))dlsym(dlopen(names[i], RTLD_NOW), "bump");
        pthread_t thread;
        void *there;
        pthread_create(&thread, NULL, run, (void *)bump);
        pthread_join(thread, &there);
        say("%s %d %d", names[i], bump(), (int)(intptr_t)there);
    }
}
#endif
