//# Area: mapping
//# Lib: main.so -Wl,-z,norelro
//# Linkers: bfd lld mold
/* Without PT_GNU_RELRO. */
#include "case.h"
static int n = 1;
static int *const p = &n;
void test(void) { say("%d", ++*p); }
