//# Area: ifunc
//# Lib: main.so
//# Linkers: bfd lld mold
/* The address of a hidden indirect function in data: IRELATIVE in DT_RELA. */
#include "case.h"
static int chosen(void) { return 33; }
static void *resolve(void) { return chosen; }
HIDDEN int indirect(void) __attribute__((ifunc("resolve")));
int (*volatile pointer)(void) = indirect;
void test(void) { say("%d %d", pointer(), indirect()); }
