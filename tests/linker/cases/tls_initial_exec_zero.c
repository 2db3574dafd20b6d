//# Area: tls models
//# Lib: main.so -ftls-model=initial-exec
//# Compilers: gcc clang
//# Linkers: bfd lld mold gold
//# Steps: 3
/* TPOFF64 without a symbol, DF_STATIC_TLS: zeroes. */
#include "case.h"
static __thread int a, b;
void test(void) { say("%d %d", ++a, b += 2); }
