//# Area: tls models
//# Lib: main.so -ftls-model=initial-exec
//# Expect-error: static TLS
/* More initial-exec data than static TLS has room for: an error that says so. */
#include "case.h"
static __thread char big[200000];
void test(void) { say("%d", big[1]++); }
