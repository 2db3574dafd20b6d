//# Area: tls descriptors
//# Lib: main.so -mtls-dialect=gnu2
//# Linkers: bfd lld
/* The descriptor of an undefined weak symbol gives the null pointer. */
#include "case.h"
extern __thread int nobody __attribute__((weak));
void test(void) { say("%s", &nobody ? "an address" : "null"); }
