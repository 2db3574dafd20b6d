//# Area: tls alignment
//# Lib: main.so
/* Small and zero, but aligned beyond what static TLS offers. */
#include "case.h"
static __thread int wide __attribute__((aligned(2048)));
void test(void) { say("%d %d", wide++, (int)((uintptr_t)&wide % 2048)); }
