//# Area: refusals
//# Lib: main.so
//# Patch: main.so phdr.PT_LOAD.1.p_flags=7
//# Expect-error: writable and executable
//# Differs: glibc maps it as it is told
/* A segment that is writable and executable. */
#include "case.h"
void test(void) { say("never"); }
