//# Area: scope
//# Lib: main.so -Wl,-z,lazy
//# Open: main.so LAZY
//# Exit: 127
//# Expect-stderr: undefined symbol: nobody
//# Modes: one; the process ends at the call
/* The call of it names it and ends the process with glibc's status. */
#include "case.h"
int nobody(void);
void test(void) { say("before"); nobody(); say("after"); }
