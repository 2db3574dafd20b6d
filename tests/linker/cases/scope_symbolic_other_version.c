//# Area: scope
//# Lib: first.so
//# Lib: second.so -Wl,--version-script={include}/v1.map -Wl,-Bsymbolic
//# Lib: main.so first.so second.so
//# Linkers: bfd
/* A library with DT_SYMBOLIC looks into itself first also for a name that it defines in an old version
   only, and refers to without one (glibc, elf/dl-load.c, l_symbolic_searchlist). Random seed 11070. */
#include "case.h"
#if defined FIRST
int f(void) { return 1; }
#elif defined SECOND
__asm__(".symver f_old, f@V1");
int f_old(void) { return 2; }
int f(void);
static int (*volatile word)(void) = f;
int second_sees(void) { return word(); }
#else
int second_sees(void);
void test(void) { say("%d", second_sees()); }
#endif
