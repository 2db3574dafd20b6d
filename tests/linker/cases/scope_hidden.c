//# Area: scope
//# Lib: dep.so
//# Lib: main.so dep.so
//# Linkers: bfd lld mold
/* Hidden names are visible to no other library. */
#include "case.h"
#ifdef DEP
HIDDEN int who(void) { return 2; }
int dep_sees(void) { return who(); }
#else
int who(void) { return 1; }
int dep_sees(void);
void test(void) { say("%d %d", dep_sees(), who()); }
#endif
