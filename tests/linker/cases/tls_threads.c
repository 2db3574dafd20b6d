//# Area: tls threads
//# Lib: main.so
//# Compilers: gcc clang
/* Each thread has its own copy, with the initial image, whatever others wrote. */
#include "case.h"
#include <pthread.h>
static __thread int zero, value = 10;
static void *run(void *amount)
{
    for (intptr_t i = 0; i < (intptr_t)amount; i++)
        zero++, value++;
    return (void *)(intptr_t)(zero * 100 + value);
}
void test(void)
{
    zero += 50;
    for (intptr_t i = 1; i <= 4; i++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, run, (void *)i);
        pthread_join(thread, &result);
        say("%d", (int)(intptr_t)result);
    }
    say("here %d %d", zero, value++);
}
