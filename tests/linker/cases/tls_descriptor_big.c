//# Area: tls descriptors
//# Lib: main.so -mtls-dialect=gnu2
//# Linkers: bfd lld mold
//# Steps: 3
/* A descriptor of a block that is too large for static TLS: the resolver allocates. */
#include "case.h"
__thread char big[100000];
__thread int value = 5;
void test(void) { big[99999]++; value++; say("%d %d %d", big[0], big[99999], value); }
