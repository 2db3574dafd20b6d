//# Area: versions
//# Lib: provider.so -Wl,--version-script={include}/v1.map
//# Lib: main.so provider.so
/* dlvsym wants the very version: a definition without one answers references that have a version, but
   not this. Random seed 2. */
#include "case.h"
#if defined PROVIDER
int plain(void) { return 1; }
int first(void) { return 2; }
__asm__(".symver first, named@@V1");
#else
int plain(void);
void test(void)
{
    say("%d %d", plain(), dlvsym(RTLD_DEFAULT, "plain", "V1") != NULL);
    say("%d", dlvsym(RTLD_NEXT, "plain", "V1") != NULL);
    void *provider = dlopen("provider.so", RTLD_NOW);
    say("%d", dlvsym(provider, "plain", "V1") != NULL);
    say("%d", ((int (*)(void))dlvsym(provider, "named", "V1"))());
}
#endif
