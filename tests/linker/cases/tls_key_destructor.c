//# Area: tls exit
//# Lib: main.so
/* A pthread key's destructor still has the thread-local data, and may set its key again. */
#include "case.h"
#include <pthread.h>
static pthread_key_t key;
static __thread int value = 5;
static __thread char big[20000] = {6};
static int rounds;
static void gone(void *argument)
{
    say("%d %d %d", (int)(intptr_t)argument, value++, big[0]++);
    if (++rounds % 2)
        pthread_setspecific(key, (void *)2);
}
static void *run(void *unused)
{
    value = 50;
    pthread_setspecific(key, (void *)1);
    return NULL;
}
void test(void)
{
    if (!rounds)
        pthread_key_create(&key, gone);
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
}
