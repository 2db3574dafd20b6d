//# Area: relocations
//# Lib: main.so
//# Patch: main.so rela.ABSOLUTE.0.type=ABSOLUTE32
//# Expect-error: does not fit into 32 bits
//# Differs: glibc writes the truncated value with a warning and goes on
/* R_X86_64_32, or R_AARCH64_ABS32, against an address above 4 GiB. */
#include "case.h"
int data = 1;
int *pointer = &data;
void test(void) { say("%d", *pointer); }
