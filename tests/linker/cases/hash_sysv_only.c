//# Area: hash tables
//# Lib: dep.so -Wl,--hash-style=sysv
//# Lib: main.so dep.so -Wl,--hash-style=sysv
//# Linkers: bfd lld mold gold
/* DT_HASH alone. */
#include "case.h"
#ifdef DEP
int one = 1, two = 2, three = 3;
int four(void) { return 4; }
#else
extern int one, two, three;
int four(void);
void test(void) { say("%d %d %d %d", one++, two++, three++, four()); }
#endif
