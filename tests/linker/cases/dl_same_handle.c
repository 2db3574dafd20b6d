//# Area: dl functions
//# Lib: dep.so
//# Lib: main.so dep.so
/* A library has one handle. */
#include "case.h"
#ifdef DEP
int value;
#else
extern int value;
void test(void)
{
    void *first = dlopen("./dep.so", RTLD_NOW), *second = dlopen("dep.so", RTLD_LAZY);
    say("%d %d", first == second, dlsym(first, "value") == &value);
}
#endif
