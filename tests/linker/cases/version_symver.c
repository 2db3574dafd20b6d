//# Area: versions
//# Lib: dep.so -Wl,--version-script={include}/v2.map
//# Lib: main.so dep.so
//# Linkers: bfd
/* Two definitions of one name: the old version for references that ask for it, the default one for
   others. */
#include "case.h"
#ifdef DEP
__asm__(".symver f_old, f@V1");
__asm__(".symver f_new, f@@V2");
int f_old(void) { return 1; }
int f_new(void) { return 2; }
#else
__asm__(".symver call_old, f@V1");
int call_old(void);
int f(void);
void test(void)
{
    void *dep = dlopen("./dep.so", RTLD_NOW);
    int (*by_name)(void) = (int (*)(void))dlsym(dep, "f");
    int (*by_old)(void) = (int (*)(void))dlvsym(dep, "f", "V1");
    int (*by_new)(void) = (int (*)(void))dlvsym(dep, "f", "V2");
    say("%d %d %d %d %d", call_old(), f(), by_name(), by_old ? by_old() : -1, by_new ? by_new() : -1);
    say("%d", dlvsym(dep, "f", "V3") == NULL);
}
#endif
