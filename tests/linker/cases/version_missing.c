//# Area: versions
//# Lib: with.so -Wl,-soname,dep.so -Wl,--version-script={include}/v9.map
//# Lib: main.so with.so
//# Lib: dep.so -Wl,--version-script={include}/v2.map
//# Open: main.so
//# Linkers: bfd
//# Expect-error: undefined symbol: f, version V9
/* The provider has other versions than the one that is asked for. */
#include "case.h"
#if defined WITH
__asm__(".symver f_new, f@@V9");
int f_new(void) { return 9; }
#elif defined DEP
__asm__(".symver f_new, f@@V2");
int f_new(void) { return 2; }
#else
int f(void);
void test(void) { say("%d", f()); }
#endif
