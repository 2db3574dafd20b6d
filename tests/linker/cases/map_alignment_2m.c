//# Area: mapping
//# Lib: main.so -Wl,-z,max-page-size=0x200000
//# Linkers: bfd lld mold
/* Segments on 2 MiB boundaries, and an object that asks for more than a page. */
#include "case.h"
static char aligned[64] __attribute__((aligned(0x10000))) = "aligned";
void test(void) { say("%s %d", aligned, (int)((uintptr_t)aligned % 0x10000)); aligned[0]++; }
