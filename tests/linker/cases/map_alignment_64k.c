//# Area: mapping
//# Lib: main.so -Wl,-z,max-page-size=0x10000
//# Linkers: bfd lld mold gold
/* Segments on 64 KiB boundaries, with gaps between them. */
#include "case.h"
static int data = 4;
void test(void) { say("%d", data++); }
