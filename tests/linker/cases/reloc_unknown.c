//# Area: relocations
//# Lib: main.so
//# Patch: main.so rela.ABSOLUTE.0.type=250
//# Expect-error: no such relocation type
/* A type that the psABI does not have. */
#include "case.h"
int data;
int *pointer = &data;
void test(void) { say("%d", *pointer); }
