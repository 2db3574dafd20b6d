//# Area: relr
//# Lib: main.so -Wl,--pack-dyn-relocs=relr
//# Linkers: lld mold
//# Differs: glibc wants a need of GLIBC_ABI_DT_RELR beside DT_RELR, which these linkers do not write; the table means the same without
//# Expect-output: 700 4
//# Expect-output: 800 5
/* DT_RELR alone: lld and mold write it. */
#include "case.h"
#define TEN(x) x, x, x, x, x, x, x, x, x, x
static int a = 3, b = 4;
static int *const table[] = {TEN(TEN(&a)), TEN(TEN(&b))};
static int *const lone __attribute__((aligned(4096))) = &b;
void test(void)
{
    int sum = 0;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        sum += *table[i];
    say("%d %d", sum, (*lone)++);
}
