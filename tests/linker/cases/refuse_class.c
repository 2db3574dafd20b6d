//# Area: refusals
//# Lib: main.so
//# Patch: main.so ehdr.class=1
//# Expect-error: not a 64-bit
/* A 32-bit object. */
#include "case.h"
void test(void) { say("never"); }
