//# Area: versions
//# Lib: stub.so -Wl,-soname,dep.so
//# Lib: main.so stub.so
//# Lib: dep.so -Wl,--version-script={include}/v2.map
//# Open: main.so
//# Linkers: bfd
//# Symbols: off the stub and the real library define one name
/* A reference that was linked before there were versions gets the oldest definition. */
#include "case.h"
#if defined STUB
int f(void) { return 0; }
#elif defined DEP
__asm__(".symver f_old, f@V1");
__asm__(".symver f_new, f@@V2");
int f_old(void) { return 1; }
int f_new(void) { return 2; }
#else
int f(void);
void test(void) { say("%d", f()); }
#endif
