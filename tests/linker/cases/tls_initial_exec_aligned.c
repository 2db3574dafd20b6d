//# Area: tls alignment
//# Lib: main.so -ftls-model=initial-exec
//# Linkers: bfd lld mold
/* Alignment of initial-exec data. */
#include "case.h"
static __thread char one = 1;
static __thread long long wide __attribute__((aligned(32))) = 9;
void test(void) { say("%d %lld %d", one++, wide++, (int)((uintptr_t)&wide % 32)); }
