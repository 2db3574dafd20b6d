//# Area: refusals
//# Lib: main.so
//# Patch: main.so dynamic.0x6ffffff9.tag=17
//# Expect-error: it uses DT_REL relocations, which the psABI of 64-bit machines does not
//# Differs: glibc does not look at DT_REL on this machine
/* DT_REL beside DT_RELA. */
#include "case.h"
static int value = 1;
int *pointer = &value;
void test(void) { say("%d", *pointer); }
