//# Area: relocations
//# Lib: dep.so
//# Lib: main.so dep.so -Wl,-z,lazy
//# Open: main.so LAZY
//# Linkers: bfd lld mold gold
/* As reloc_jump_slot, from an object that asks for lazy binding. */
#include "case.h"
#ifdef DEP
double half(double x) { return x / 2; }
#else
double half(double x);
void test(void) { say("%.2f", half(5)); }
#endif
