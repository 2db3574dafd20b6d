//# Area: tls exit
//# Lib: main.so
/* Hundreds of threads come and go; each begins with the image. */
#include "case.h"
#include <pthread.h>
static __thread int value = 1;
static __thread char big[4096];
static void *run(void *unused)
{
    int fresh = value == 1 && big[7] == 0;
    value = 9;
    big[7] = 9;
    return (void *)(intptr_t)fresh;
}
void test(void)
{
    int fresh = 0;
    for (int i = 0; i < 50; i++) {
        pthread_t threads[4];
        for (int j = 0; j < 4; j++)
            pthread_create(&threads[j], NULL, run, NULL);
        for (int j = 0; j < 4; j++) {
            void *result;
            pthread_join(threads[j], &result);
            fresh += (int)(intptr_t)result;
        }
    }
    say("%d", fresh);
}
