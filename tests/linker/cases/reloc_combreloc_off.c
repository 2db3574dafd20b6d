//# Area: relocations
//# Lib: dep.so
//# Lib: main.so dep.so -Wl,-z,nocombreloc
//# Linkers: bfd lld
/* Relocations in input order, without DT_RELACOUNT. */
#include "case.h"
#ifdef DEP
int other = 6;
#else
extern int other;
static int own = 5;
static int *const table[] = {&own, &other, &own, &other};
void test(void) { say("%d", *table[0] + *table[1] + *table[2] + *table[3]); own++; }
#endif
