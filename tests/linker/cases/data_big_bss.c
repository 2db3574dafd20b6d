//# Area: mapping
//# Lib: main.so
//# Linkers: bfd lld mold
/* A bss of 300 MiB costs only the pages touched. */
#include "case.h"
static char big[300u << 20];
void test(void)
{
    big[0]++;
    big[sizeof big - 1] += 2;
    say("%d %d %d", big[0], big[sizeof big / 2], big[sizeof big - 1]);
}
