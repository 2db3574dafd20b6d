//# Area: relocations
//# Lib: main.so
//# Patch: main.so rela.ABSOLUTE.0.offset=0x10
//# Expect-error: outside the writable segments
//# Differs: glibc writes where it is told and dies of SIGSEGV
/* A relocation that applies to the read-only header. */
#include "case.h"
int data;
int *pointer = &data;
void test(void) { say("%d", *pointer); }
