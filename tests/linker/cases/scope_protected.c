//# Area: scope
//# Lib: dep.so
//# Lib: main.so dep.so
//# Linkers: lld mold
/* STV_PROTECTED: exported, but the own references are not preempted. */
#include "case.h"
#ifdef DEP
PROTECTED int who(void) { return 2; }
PROTECTED int data = 20;
int dep_sees(void) { return who() * 100 + data; }
#else
int who(void) { return 1; }
int data = 10;
int dep_sees(void);
void test(void) { say("%d", dep_sees()); data++; }
#endif
