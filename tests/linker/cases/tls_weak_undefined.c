//# Area: tls models
//# Lib: main.so
//# Linkers: bfd lld
/* An undefined weak thread-local reference does not disturb the load. */
#include "case.h"
extern __thread int nobody __attribute__((weak));
static __thread int own = 4;
int *never(void) { return &nobody; }
void test(void) { say("%d", own++); }
