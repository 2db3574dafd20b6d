//# Area: refusals
//# Lib: main.so
//# Patch: main.so ehdr.e_phentsize=32
//# Expect-error: program headers of 32 bytes
/* Program headers of a size that the class does not have. */
#include "case.h"
void test(void) { say("never"); }
