//# Area: tls images
//# Lib: dep.so
//# Lib: main.so dep.so
//# Linkers: bfd lld mold
/* The initial image holds relocated words: each copy's threads get that copy's pointers. */
#include "case.h"
#include <pthread.h>
#ifdef DEP
int theirs = 8;
#else
extern int theirs;
static int own = 9;
static __thread int *pointers[2] = {&own, &theirs};
static void *run(void *unused)
{
    return (void *)(intptr_t)(pointers[0] == &own && pointers[1] == &theirs);
}
void test(void)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, &result);
    say("%d %d %d", (*pointers[0])++, (*pointers[1])++, (int)(intptr_t)result);
    pointers[0] = NULL;
    pointers[0] = &own;
}
#endif
