//# Area: relocations
//# Lib: dep.so
//# Lib: main.so dep.so
//# Compilers: gcc clang
//# Linkers: bfd lld mold gold
/* R_X86_64_64 against a symbol of another object, with an addend. */
#include "case.h"
#ifdef DEP
int shared[4] = {10, 20, 30, 40};
#else
extern int shared[4];
static int *const third = &shared[2];
static int *const past = &shared[4];
void test(void) { say("%d %d", ++*third, (int)(past - third)); }
#endif
