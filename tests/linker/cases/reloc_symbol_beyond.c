//# Area: relocations
//# Lib: main.so
//# Patch: main.so rela.ABSOLUTE.0.symbol=0xfffff
//# Expect-error: beyond the table
//# Differs: glibc reads past the symbol table
/* A relocation that names a symbol that is not there. */
#include "case.h"
int data;
int *pointer = &data;
void test(void) { say("%d", *pointer); }
