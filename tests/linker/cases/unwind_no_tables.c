//# Area: unwinding
//# Lib: main.so -fno-asynchronous-unwind-tables -fno-unwind-tables -nostartfiles
//# Linkers: bfd lld
/* A library without unwind tables loads and runs. */
#include "case.h"
void test(void) { static int n; say("%d", ++n); }
