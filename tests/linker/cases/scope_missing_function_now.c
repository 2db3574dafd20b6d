//# Area: scope
//# Lib: main.so
//# Expect-error: undefined symbol: nobody
//# Linkers: bfd lld mold
/* RTLD_NOW: the load fails. */
#include "case.h"
int nobody(void);
void test(void) { nobody(); }
