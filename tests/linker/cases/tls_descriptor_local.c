//# Area: tls descriptors
//# Lib: main.so -mtls-dialect=gnu2 -ftls-model=local-dynamic
//# Linkers: bfd lld mold
//# Steps: 3
/* A descriptor of the module itself: local-dynamic in the GNU2 dialect. */
#include "case.h"
static __thread int a = 1, b = 2;
static __thread char big[5000];
void test(void) { say("%d %d %d", a++, b++, ++big[4999]); }
