//# Area: scope
//# Lib: dep.so -Wl,-Bsymbolic
//# Lib: main.so dep.so
//# Linkers: bfd lld mold gold
/* DT_SYMBOLIC: the dependency binds to itself first. */
#include "case.h"
#ifdef DEP
int who(void) { return 2; }
int data = 20;
static int *const pointer = &data;
int dep_sees(void) { return who() * 100 + *pointer; }
#else
int who(void) { return 1; }
int data = 10;
int dep_sees(void);
void test(void) { say("%d", dep_sees()); data++; }
#endif
