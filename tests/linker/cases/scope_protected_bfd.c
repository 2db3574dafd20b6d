//# Area: scope
//# Lib: dep.so
//# Lib: main.so dep.so
/* As scope_protected for functions, which GNU ld binds too. */
#include "case.h"
#ifdef DEP
PROTECTED int who(void) { return 2; }
int dep_sees(void) { return who(); }
#else
int who(void) { return 1; }
int dep_sees(void);
void test(void) { say("%d %d", dep_sees(), who()); }
#endif
