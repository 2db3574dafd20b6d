//# Area: scope
//# Lib: main.so
//# Open: main.so LAZY
//# Expect-error: undefined symbol: nobody
//# Linkers: bfd lld
/* Undefined data is an error, lazily or not. */
#include "case.h"
extern int nobody;
void test(void) { say("%d", nobody); }
