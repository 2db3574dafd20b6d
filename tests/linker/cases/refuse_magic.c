//# Area: refusals
//# Lib: main.so
//# Patch: main.so ehdr.magic=0
//# Expect-error: magic number
/* No ELF file. */
#include "case.h"
void test(void) { say("never"); }
