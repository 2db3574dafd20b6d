//# Area: refusals
//# Lib: main.so
//# Patch: main.so phdr.PT_LOAD.1.p_vaddr=0
//# Expect-error: shares a page with the segment before it
//# Differs: glibc maps the later segment over the earlier one
/* Two segments in one page. */
#include "case.h"
void test(void) { say("never"); }
