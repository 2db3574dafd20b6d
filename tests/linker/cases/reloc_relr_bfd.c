//# Area: relr
//# Lib: main.so -Wl,-z,pack-relative-relocs
//# Compilers: gcc
//# Linkers: bfd
/* As reloc_relr, by GNU ld, which also adds a need of GLIBC_ABI_DT_RELR. */
#include "case.h"
#define TEN(x) x, x, x, x, x, x, x, x, x, x
static int a = 3, b = 4;
static int *const table[] = {TEN(TEN(&a)), TEN(TEN(&b))};
void test(void)
{
    int sum = 0;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        sum += *table[i];
    say("%d", sum);
    a++;
}
