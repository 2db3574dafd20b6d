//# Area: tls alignment
//# Lib: main.so
//# Linkers: bfd lld mold
/* Blocks with the alignments 1 to 4096. */
#include "case.h"
#define VARIABLE(n) static __thread char v##n[n] __attribute__((aligned(n))) = {1};
VARIABLE(1) VARIABLE(16) VARIABLE(64) VARIABLE(256) VARIABLE(4096)
#define CHECK(n) say("%d %d %d", n, (int)((uintptr_t)v##n % n), v##n[0]++);
void test(void) { CHECK(1) CHECK(16) CHECK(64) CHECK(256) CHECK(4096) }
