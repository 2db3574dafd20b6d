//# Area: refusals
//# Lib: main.so
//# Patch: main.so ehdr.e_phoff=0x10000000
//# Expect-error: program headers lie beyond
/* Program headers outside the file. */
#include "case.h"
void test(void) { say("never"); }
