//# Area: refusals
//# Lib: main.so
//# Patch: main.so dynamic.5=0x10000000
//# Expect-error: is not in the file
//# Differs: glibc reads there and dies of SIGSEGV
/* A string table outside the segments. */
#include "case.h"
void test(void) { say("never"); }
