//# Area: hash tables
//# Lib: dep.so -Wl,--hash-style=sysv
//# Lib: main.so dep.so
//# Linkers: bfd lld
/* "a0" and "` @"-like pairs (16 * 'a' + '0' == 16 * 'b' + ' '): here a1 + 16 = b... by digits. */
#include "case.h"
#ifdef DEP
int x_aQ = 1, x_bA = 2, x_c1 = 3;
#else
extern int x_aQ, x_bA, x_c1;
void test(void) { say("%d %d %d", x_aQ, x_bA, x_c1); }
#endif
