//# Area: refusals
//# Lib: main.so
//# Patch: main.so ehdr.e_type=2
//# Expect-error: cannot dynamically load executable
/* An executable that is not position-independent. */
#include "case.h"
void test(void) { say("never"); }
