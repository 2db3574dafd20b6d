//# Area: scope
//# Lib: dep.so -Wl,-Bsymbolic-functions
//# Lib: main.so dep.so
//# Linkers: bfd lld mold
/* Only functions are bound by the linker. */
#include "case.h"
#ifdef DEP
int who(void) { return 2; }
int data = 20;
int dep_sees(void) { return who() * 100 + data; }
#else
int who(void) { return 1; }
int data = 10;
int dep_sees(void);
void test(void) { say("%d", dep_sees()); }
#endif
