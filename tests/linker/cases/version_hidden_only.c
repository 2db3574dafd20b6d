//# Area: versions
//# Lib: dep.so -Wl,--version-script={include}/v1.map
//# Lib: main.so dep.so
//# Linkers: bfd
/* Only a hidden version: found with its version, not by dlsym without. */
#include "case.h"
#ifdef DEP
__asm__(".symver f_old, f@V1");
int f_old(void) { return 1; }
#else
__asm__(".symver call_old, f@V1");
int call_old(void);
void test(void)
{
    void *dep = dlopen("./dep.so", RTLD_NOW);
    say("%d %d %d", call_old(), dlsym(dep, "f") == NULL, dlvsym(dep, "f", "V1") != NULL);
}
#endif
