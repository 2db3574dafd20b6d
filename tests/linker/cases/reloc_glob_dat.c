//# Area: relocations
//# Lib: dep.so
//# Lib: main.so dep.so
//# Compilers: gcc clang
//# Linkers: bfd lld mold gold
/* R_X86_64_GLOB_DAT: data of another object through the global offset table. */
#include "case.h"
#ifdef DEP
int counter = 100;
int *where(void) { return &counter; }
#else
extern int counter;
int *where(void);
void test(void) { say("%d %d", ++counter, where() == &counter); }
#endif
