//# Area: mapping
//# Lib: main.so -Wl,-z,separate-loadable-segments
//# Linkers: lld mold
/* Every segment begins a page of the file. */
#include "case.h"
static int n = 1;
void test(void) { say("%d", n <<= 1); }
