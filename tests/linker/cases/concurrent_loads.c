//# Area: recursion and threads
//# Lib: a.so
//# Lib: b.so
//# Lib: c.so
//# Lib: d.so
//# Lib: main.so
/* Threads open different libraries and one together. */
#include "case.h"
#include <pthread.h>
#ifndef MAIN
static int n;
CONSTRUCTOR static void begin(void) { n++; }
int count(void) { return n; }
#else
static const char *const names[] = {"./a.so", "./b.so", "./c.so", "./d.so"};
static void *run(void *number)
{
    intptr_t sum = 0;
    for (int i = 0; i < 4; i++) {
        void *handle = dlopen(names[(i + (intptr_t)number) % 4], RTLD_NOW);
        if (!handle)
            return (void *)-1;
        sum += ((int (*)(void))dlsym(handle, "count"))();
    }
    return (void *)sum;
}
void test(void)
{
    pthread_t threads[8];
    for (intptr_t i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < 8; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        say("%d", (int)(intptr_t)sum);
    }
}
#endif
