//# Area: tls threads
//# Lib: main.so -ftls-model=initial-exec
//# Linkers: bfd lld
/* Initialised initial-exec data in threads that are created after the load. */
#include "case.h"
#include <pthread.h>
static __thread int a = 5;
static void *run(void *unused) { a++; return (void *)(intptr_t)a; }
void test(void)
{
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, run, NULL);
        pthread_join(thread, &result);
        say("%d", (int)(intptr_t)result);
    }
    say("here %d", a++);
}
