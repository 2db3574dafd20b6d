//# Area: refusals
//# Lib: main.so
//# Patch: main.so truncate=0
//# Expect-error: the file is empty
/* A file without a byte. */
#include "case.h"
void test(void) { say("never"); }
