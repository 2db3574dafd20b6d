//# Area: tls models
//# Lib: main.so
//# Linkers: lld bfd gold mold
/* A protected thread-local variable, dynamic code: lld names the symbol in DTPMOD64 and writes the offset
   itself. (It was taken for one that DTPOFF64 writes: the variable was elsewhere. Random seed 1122.) */
#include "case.h"
__thread int before = 1;
PROTECTED __thread int zero;
PROTECTED __thread int seven = 7;
void test(void) { say("%d %d %d", before++, zero++, seven++); }
