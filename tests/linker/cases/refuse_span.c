//# Area: refusals
//# Lib: main.so
//# Patch: main.so phdr.PT_LOAD.3.p_memsz=0x4000000000000
//# Expect-error: more address space than any image can
/* A segment of a petabyte. */
#include "case.h"
void test(void) { say("never"); }
