//# Area: refusals
//# Lib: main.so
//# Patch: main.so phdr.PT_LOAD.0.p_type=0
//# Patch: main.so phdr.PT_LOAD.0.p_type=0
//# Patch: main.so phdr.PT_LOAD.0.p_type=0
//# Patch: main.so phdr.PT_LOAD.0.p_type=0
//# Expect-error: no PT_LOAD segment
//# Differs: glibc looks for the dynamic section, which the patched headers place nowhere
/* Nothing to map. */
#include "case.h"
void test(void) { say("never"); }
