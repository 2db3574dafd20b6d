//# Area: tls models
//# Lib: main.so
//# Linkers: bfd lld
/* A weak thread-local reference that nobody answers leaves the load alone. */
#include "case.h"
extern __thread int nobody __attribute__((weak));
static __thread int own = 4;
int *never(void) { return &nobody; }
void test(void) { say("%d", own++); }
