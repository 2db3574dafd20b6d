//# Area: relocations
//# Lib: main.so -fno-pic -mcmodel=large -Wl,-z,notext
//# Compilers: gcc clang
//# Linkers: bfd lld mold gold
//# Sharing: off (code has relocated words)
/* Code that is not position-independent: calls and data by absolute addresses in the instructions. */
#include "case.h"
int counter = 5;
static const char *const names[] = {"zero", "one", "two"};
int twice(int value) { return 2 * value + counter++; }
NOINLINE static const char *name(int index) { return names[index]; }
void test(void) { say("%d %s %s", twice(3), name(1), strchr("a=b", '=')); }
