//# Area: relr
//# Lib: dep.so -Wl,--pack-dyn-relocs=relr
//# Lib: main.so dep.so -Wl,--pack-dyn-relocs=relr
//# Linkers: lld mold
//# Differs: glibc wants a need of GLIBC_ABI_DT_RELR beside DT_RELR, which these linkers do not write; the table means the same without
//# Expect-output: 10 10 10
//# Expect-output: 10 11 11
/* DT_RELR beside symbolic relocations of the same table. */
#include "case.h"
#ifdef DEP
int theirs = 9;
int *const theirs_table[] = {&theirs, &theirs};
#else
extern int theirs;
extern int *const theirs_table[];
static int own = 5;
static int *const table[] = {&own, &theirs, &own, &theirs};
void test(void)
{
    (*table[1])++;
    say("%d %d %d", *table[0] + *table[2], *table[3], *theirs_table[1]);
}
#endif
