//# Area: relocations
//# Lib: main.so
//# Compilers: gcc clang
//# Linkers: bfd lld mold gold
//# Expect-output: 1 2 3 own
//# Expect-output: 2 2 3 own
/* R_X86_64_RELATIVE: pointers of a static table. */
#include "case.h"
static int a = 1, b = 2, c = 3;
static int *const table[] = {&a, &b, &c};
void test(void)
{
    say("%d %d %d %s", *table[0], *table[1], *table[2], table[0] == &a ? "own" : "other");
    a++;
}
