//# Area: refusals
//# Lib: main.so
//# Patch: main.so truncate=40
//# Expect-error: less than an ELF header
/* A file that ends in its header. */
#include "case.h"
void test(void) { say("never"); }
