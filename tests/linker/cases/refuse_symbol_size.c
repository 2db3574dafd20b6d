//# Area: refusals
//# Lib: main.so
//# Patch: main.so dynamic.11=16
//# Expect-error: another size than the gABI's
//# Differs: glibc ends the process by an assertion
/* DT_SYMENT of a 32-bit object. */
#include "case.h"
void test(void) { say("never"); }
