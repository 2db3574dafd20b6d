//# Area: versions
//# Lib: dep.so -Wl,--default-symver
//# Lib: main.so dep.so
/* dlvsym by the base version's name, the soname. */
#include "case.h"
#ifdef DEP
int value = 3;
#else
extern int value;
void test(void)
{
    void *dep = dlopen("./dep.so", RTLD_NOW);
    say("%d %d %d", value++, dlvsym(dep, "value", "dep.so") == &value,
        dlvsym(dep, "value", "other.so") == NULL);
}
#endif
