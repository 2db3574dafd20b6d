//# Area: tls models
//# Lib: main.so -ftls-model=local-dynamic
//# Compilers: gcc clang
//# Linkers: bfd lld mold gold
//# Steps: 3
/* DTPMOD64 without a symbol: several variables from one call of __tls_get_addr. */
#include "case.h"
static __thread int a = 1, b = 2, c;
static __thread char text[16] = "local";
void test(void) { say("%d %d %d %s", a++, b++, c++, text); text[0]++; }
