//# Area: refusals
//# Lib: main.so
//# Patch: main.so phdr.PT_LOAD.2.p_offset=0x123
//# Expect-error: modulo the page size
/* Offset and address that differ within a page. */
#include "case.h"
void test(void) { say("never"); }
