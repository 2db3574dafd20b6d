//# Area: ifunc
//# Lib: main.so
//# Linkers: lld mold
/* A protected indirect function is called and pointed to. */
#include "case.h"
static int chosen(void) { return 21; }
static void *resolve(void) { return chosen; }
PROTECTED int indirect(void) __attribute__((ifunc("resolve")));
static int (*const pointer)(void) = indirect;
void test(void) { say("%d %d %d", indirect(), pointer(), pointer == indirect); }
