//# Area: refusals
//# Lib: main.so
//# Patch: main.so phdr.PT_DYNAMIC.0.p_type=0
//# Expect-error: no dynamic section
/* Without PT_DYNAMIC. */
#include "case.h"
void test(void) { say("never"); }
