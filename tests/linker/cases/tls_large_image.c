//# Area: tls images
//# Lib: main.so
//# Linkers: bfd lld mold
/* 40 KiB of initialised data. */
#include "case.h"
static __thread int table[10000] = {[0] = 1, [9999] = 7};
void test(void) { say("%d %d %d", table[0]++, table[5000]++, table[9999]++); }
