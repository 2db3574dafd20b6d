//# Area: ifunc
//# Lib: main.so
//# Linkers: bfd lld mold
/* A constructor calls an indirect function. */
#include "case.h"
static int chosen(void) { return 3; }
static void *resolve(void) { return chosen; }
int indirect(void) __attribute__((ifunc("resolve")));
static int seen;
CONSTRUCTOR static void early(void) { seen = indirect(); }
void test(void) { say("%d", seen); }
