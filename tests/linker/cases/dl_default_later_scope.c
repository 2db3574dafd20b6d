//# Area: dl functions
//# Lib: needed.so
//# Lib: later.so needed.so
//# Lib: main.so
//# Steps: 1
//# Modes: program; in other domains a library keeps the scope of its own load
/* RTLD_DEFAULT of a library finds the definitions of a later load that needs it (glibc,
   elf/dl-open.c,
   update_scopes). Random seed 1457. */
#include "case.h"
#if defined NEEDED
int ask(void) { return dlsym(RTLD_DEFAULT, "brought") != NULL; }
#elif defined LATER
int brought = 1;
#else
void test(void)
{
    int (*ask)(void) = (int (*)(void))dlsym(dlopen("./needed.so", RTLD_NOW), "ask");
    say("%d", ask());
    dlopen("./later.so", RTLD_NOW);
    say("%d", ask());
}
#endif
