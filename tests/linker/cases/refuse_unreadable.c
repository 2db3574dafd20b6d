//# Area: refusals
//# Lib: main.so
//# Patch: main.so phdr.PT_LOAD.3.p_flags=2
//# Expect-error: is not readable
//# Differs: glibc maps it as it is told, and the processor reads what is writable
/* A segment with PF_W alone. */
#include "case.h"
void test(void) { say("never"); }
