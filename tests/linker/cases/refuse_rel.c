//# Area: refusals
//# Lib: main.so
//# Patch: main.so dynamic.7.tag=17
//# Patch: main.so dynamic.8.tag=18
//# Patch: main.so dynamic.9.tag=19
//# Expect-error: it uses DT_REL relocations, which the psABI of 64-bit machines does not
//# Differs: glibc does not look at DT_REL on this machine and relocates nothing
/* DT_REL in place of DT_RELA: nothing must run with half of its words unrelocated. */
#include "case.h"
static int value = 1;
int *pointer = &value;
void test(void) { say("%d", *pointer); }
