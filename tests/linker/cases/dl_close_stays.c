//# Area: dl functions
//# Lib: dep.so
//# Lib: main.so
//# Differs: glibc unloads at the last dlclose; in a domain a library stays, as nobody can know who holds pointers into it
//# Program: glibc
//# Expect-output: 2
//# Expect-output: 3
/* dlclose in a domain is NODELETE. */
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
