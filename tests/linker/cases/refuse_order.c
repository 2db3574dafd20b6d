//# Area: refusals
//# Lib: main.so
//# Patch: main.so phdr.PT_LOAD.0.p_vaddr=0x2000
//# Expect-error: not in ascending order of address
//# Differs: glibc takes the first segment for the lowest and maps the next before it
/* PT_LOAD entries that do not ascend. */
#include "case.h"
void test(void) { say("never"); }
