//# Area: dl functions
//# Lib: dep.so
//# Lib: main.so dep.so
/* dlclose of a library that is still needed changes nothing. */
#include "case.h"
#ifdef DEP
int value = 1;
#else
extern int value;
void test(void)
{
    void *dep = dlopen("./dep.so", RTLD_NOW);
    say("%d", dlclose(dep));
    say("%d", value++);
}
#endif
