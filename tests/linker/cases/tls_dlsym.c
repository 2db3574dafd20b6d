//# Area: tls models
//# Lib: dep.so
//# Lib: main.so dep.so
/* dlsym of a thread-local symbol gives the calling thread's. */
#include "case.h"
#include <pthread.h>
#ifdef DEP
__thread int value = 15;
int *address(void) { return &value; }
#else
int *address(void);
static void *handle;
static void *run(void *unused)
{
    int *found = dlsym(handle, "value");
    return (void *)(intptr_t)(found == address() ? *found : -1);
}
void test(void)
{
    handle = dlopen("./dep.so", RTLD_NOW);
    ++*address();
    int *found = dlsym(handle, "value");
    pthread_t thread;
    void *there;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, &there);
    say("%d %d %d", found == address(), *found, (int)(intptr_t)there);
}
#endif
