//# Area: hash tables
//# Lib: dep.so -Wl,--hash-style=both
//# Lib: main.so dep.so -Wl,--hash-style=sysv
//# Linkers: bfd lld mold
/* One object has both tables, its user has the old one. */
#include "case.h"
#ifdef DEP
int value = 5;
#else
extern int value;
void test(void) { say("%d", value++); }
#endif
