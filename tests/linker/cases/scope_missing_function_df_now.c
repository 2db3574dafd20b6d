//# Area: scope
//# Lib: main.so -Wl,-z,now
//# Open: main.so LAZY
//# Expect-error: undefined symbol: nobody
/* The object asks for immediate binding itself. */
#include "case.h"
int nobody(void);
void test(void) { nobody(); }
