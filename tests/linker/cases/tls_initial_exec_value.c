//# Area: tls models
//# Lib: main.so -ftls-model=initial-exec
//# Compilers: gcc clang
//# Linkers: bfd lld mold gold
//# Steps: 3
/* TPOFF64 to initialised data. */
#include "case.h"
static __thread int a = 41, b;
static __thread char text[8] = "init";
void test(void) { say("%d %d %s", ++a, ++b, text); text[0]++; }
