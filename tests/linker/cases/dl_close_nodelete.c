//# Area: dl functions
//# Lib: dep.so -Wl,-z,nodelete
//# Lib: main.so
/* DF_1_NODELETE: data survives dlclose. */
#include "case.h"
#ifdef DEP
int value = 1;
#else
void test(void)
{
    void *dep = dlopen("./dep.so", RTLD_NOW);
    ++*(int *)dlsym(dep, "value");
    dlclose(dep);
    dep = dlopen("./dep.so", RTLD_NOW);
    say("%d", *(int *)dlsym(dep, "value"));
}
#endif
