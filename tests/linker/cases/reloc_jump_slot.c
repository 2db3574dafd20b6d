//# Area: relocations
//# Lib: dep.so
//# Lib: main.so dep.so
//# Compilers: gcc clang
//# Linkers: bfd lld mold gold
/* R_X86_64_JUMP_SLOT: calls through the PLT, and a PLT of the object's own preemptible function. */
#include "case.h"
#ifdef DEP
int twice(int x) { return 2 * x; }
#else
int twice(int x);
int thrice(int x) { return 3 * x; }
static int n;
void test(void) { n++; say("%d %d", twice(n), thrice(n)); }
#endif
