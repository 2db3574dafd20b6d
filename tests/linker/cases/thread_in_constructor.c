//# Area: recursion and threads
//# Lib: main.so
//# Expect-output: 7
//# Expect-output: 7
/* A constructor starts a thread that outlives it (it is not joined there). */
#include "case.h"
#include <pthread.h>
static pthread_t thread;
static int *const address = &(int){7};
static void *run(void *unused) { return (void *)address; }
CONSTRUCTOR static void begin(void) { pthread_create(&thread, NULL, run, NULL); }
void test(void)
{
    static void *result;
    if (!result)
        pthread_join(thread, &result);
    say("%d", *(int *)result);
}
