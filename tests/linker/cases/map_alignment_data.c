//# Area: mapping
//# Lib: main.so
//# Linkers: bfd lld mold
/* p_align beyond the page size through one object only. */
#include "case.h"
static char wide[0x8000] __attribute__((aligned(0x8000)));
void test(void) { say("%d %d", ++wide[5], (int)((uintptr_t)wide % 0x8000)); }
