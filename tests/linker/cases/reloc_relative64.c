//# Area: relocations
//# Machine: x86_64
//# Lib: main.so
//# Patch: main.so rela.8.0.type=38
//# Symbols: off the frame_dummy entry is what the patch changes, which has no name
/* R_X86_64_RELATIVE64 means the same as RELATIVE on LP64. */
#include "case.h"
static int a = 7;
static int *const pointer = &a;
void test(void) { say("%d", (*pointer)++); }
