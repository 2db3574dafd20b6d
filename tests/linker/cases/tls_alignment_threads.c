//# Area: tls alignment
//# Lib: main.so
/* The alignment holds in every thread. */
#include "case.h"
#include <pthread.h>
static __thread struct { char a; long long wide __attribute__((aligned(128))); } s = {1, 2};
static void *run(void *unused) { return (void *)((uintptr_t)&s % 128 + (s.wide != 2)); }
void test(void)
{
    int wrong = 0;
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, run, NULL);
        pthread_join(thread, &result);
        wrong += result != NULL;
    }
    say("%d %d", wrong, (int)((uintptr_t)&s % 128));
}
