//# Area: tls models
//# Lib: dep.so
//# Lib: main.so dep.so -ftls-model=initial-exec
//# Linkers: bfd lld mold
//# Steps: 3
/* TPOFF64 by name: initial-exec code reaches another object's initialised data. */
#include "case.h"
#ifdef DEP
__thread int value = 100;
int dep_sees(void) { return value; }
#else
extern __thread int value;
int dep_sees(void);
void test(void) { value++; say("%d %d", value, dep_sees()); }
#endif
