//# Area: tls descriptors
//# Lib: dep.so -mtls-dialect=gnu2
//# Lib: main.so dep.so -mtls-dialect=gnu2
//# Linkers: bfd lld mold
//# Steps: 3
/* R_X86_64_TLSDESC, by name and without. */
#include "case.h"
#ifdef DEP
__thread int zero;
__thread int value = 7;
#else
extern __thread int zero, value;
static __thread int own = 3, own_zero;
void test(void) { say("%d %d %d %d", ++zero, ++value, ++own, ++own_zero); }
#endif
