//# Area: refusals
//# Lib: main.so -Wl,-z,now
//# Patch: main.so dynamic.0x6ffffffb=0x8000001
//# Expect-error: cannot dynamically load position-independent executable
/* DF_1_PIE: an executable that looks like a shared object. */
#include "case.h"
void test(void) { say("never"); }
