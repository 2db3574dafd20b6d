//# Area: ifunc
//# Lib: main.so
//# Compilers: gcc clang
//# Linkers: bfd lld mold
/* R_X86_64_IRELATIVE: a local indirect function. */
#include "case.h"
static int chosen(int x) { return x + 1; }
static int resolved;
static void *resolve(void) { resolved++; return chosen; }
static int indirect(int) __attribute__((ifunc("resolve")));
void test(void) { say("%d %s", indirect(41), resolved > 0 ? "resolved" : "not resolved"); }
