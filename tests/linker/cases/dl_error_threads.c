//# Area: dl functions
//# Lib: main.so
/* Each thread has its own error. */
#include "case.h"
#include <pthread.h>
static void *run(void *unused)
{
    int clean = dlerror() == NULL;
    dlsym(RTLD_DEFAULT, "other_name");
    const char *error = dlerror();
    return (void *)(intptr_t)(clean && error && strstr(error, "other_name"));
}
void test(void)
{
    dlsym(RTLD_DEFAULT, "own_name");
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, &result);
    const char *error = dlerror();
    say("%d %d", (int)(intptr_t)result, error && strstr(error, "own_name") != NULL);
}
