//# Area: scope
//# Lib: dep.so
//# Lib: main.so dep.so
//# Compilers: gcc clang
//# Linkers: bfd lld mold
/* The opened library's definition wins in its dependency too. */
#include "case.h"
#ifdef DEP
int who(void) { return 2; }
int data = 20;
int dep_sees(void) { return who() * 100 + data; }
#else
int who(void) { return 1; }
int data = 10;
int dep_sees(void);
void test(void) { say("%d", dep_sees()); data++; }
#endif
