//# Area: refusals
//# Lib: main.so
//# Patch: main.so phdr.PT_LOAD.1.p_align=0x1800
//# Expect-error: has the alignment
//# Differs: glibc checks it against the page size only
/* An alignment that is not a power of two. */
#include "case.h"
void test(void) { say("never"); }
