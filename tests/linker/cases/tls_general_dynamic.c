//# Area: tls models
//# Lib: dep.so -ftls-model=global-dynamic
//# Lib: main.so dep.so -ftls-model=global-dynamic
//# Compilers: gcc clang
//# Linkers: bfd lld mold gold
//# Steps: 3
/* DTPMOD64 and DTPOFF64: thread-local data of another object. */
#include "case.h"
#ifdef DEP
__thread int zero;
__thread int value = 7;
__thread char pad[3], odd = 'o';
#else
extern __thread int zero, value;
extern __thread char odd;
void test(void) { say("%d %d %c", ++zero, ++value, odd++); }
#endif
