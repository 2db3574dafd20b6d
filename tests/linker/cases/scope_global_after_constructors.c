//# Area: scope
//# Lib: inner.so
//# Lib: outer.so
//# Lib: user.so
//# Lib: main.so
//# Steps: 1
/* A library opened with RTLD_GLOBAL becomes global when its constructors have run: behind those
   that they open so (glibc, elf/dl-open.c, dl_open_worker). Random seed 1003. */
#include "case.h"
#if defined INNER
int who(void) { return 1; }
#elif defined OUTER
int who(void) { return 2; }
CONSTRUCTOR static void begin(void) { dlopen("./inner.so", RTLD_NOW | RTLD_GLOBAL); }
#elif defined USER
int who(void);
int use(void) { return who(); }
#else
void test(void)
{
    dlopen("./outer.so", RTLD_NOW | RTLD_GLOBAL);
    say("%d", ((int (*)(void))dlsym(dlopen("./user.so", RTLD_NOW), "use"))());
}
#endif
