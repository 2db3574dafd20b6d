//# Area: tls descriptors
//# Lib: main.so -mtls-dialect=gnu2
/* Descriptors in many threads, each of which begins with the initial image. */
#include "case.h"
#include <pthread.h>
__thread int value = 5;
__thread char big[70000];
static void *run(void *amount)
{
    for (int i = 0; i < (int)(intptr_t)amount; i++) {
        value++;
        big[69999]++;
    }
    return (void *)(intptr_t)(value * 1000 + big[69999]);
}
void test(void)
{
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, run, (void *)(i + 1));
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        say("%d", (int)(intptr_t)result);
    }
    say("%d", value++);
}
