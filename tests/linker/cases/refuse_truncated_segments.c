//# Area: refusals
//# Lib: main.so
//# Patch: main.so truncate=5000
//# Expect-error: truncated
//# Differs: glibc maps what is there and dies of SIGBUS
/* A file that ends in its segments. */
#include "case.h"
void test(void) { say("never"); }
