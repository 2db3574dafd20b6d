//# Area: refusals
//# Lib: main.so
//# Patch: main.so phdr.PT_TLS.0.p_align=0x30
//# Expect-error: PT_TLS has an impossible size or alignment
//# Differs: glibc computes with it
/* An alignment of thread-local data that is not a power of two. */
#include "case.h"
static __thread int own = 1;
void test(void) { say("%d", own++); }
