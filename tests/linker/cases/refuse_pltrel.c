//# Area: refusals
//# Lib: main.so
//# Patch: main.so dynamic.20=17
//# Expect-error: DT_REL
//# Differs: glibc asserts or misreads the table
/* DT_PLTREL that says DT_REL. */
#include "case.h"
void test(void) { say("never"); }
