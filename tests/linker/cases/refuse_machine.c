//# Area: refusals
//# Lib: main.so
//# Patch: main.so ehdr.e_machine=40
//# Expect-error: it is for
/* Another machine's object. */
#include "case.h"
void test(void) { say("never"); }
