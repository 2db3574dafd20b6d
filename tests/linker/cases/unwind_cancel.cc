//# Area: unwinding
//# Lib: main.so
/* Thread cancellation unwinds and runs clean-ups. */
#include "case.h"
#include <pthread.h>
#include <unistd.h>
static int cleaned;
struct Guard { ~Guard() { cleaned++; } };
static void *run(void *)
{
    Guard guard;
    for (;;)
        pause();
    return nullptr;
}
void test(void)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, nullptr, run, nullptr);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    say("%d %d", result == PTHREAD_CANCELED, cleaned >= 0);
}
