//# Area: refusals
//# Lib: main.so -Wl,-z,rel
//# Linkers: lld
//# Expect-error: it uses DT_REL relocations, which the psABI of 64-bit machines does not
//# Differs: glibc ends the process by an assertion (DT_PLTREL is DT_RELA)
/* DT_REL as lld writes it if asked to, with the addends in the words. */
#include "case.h"
static int value = 1;
int *pointer = &value;
void test(void) { say("%d", *pointer); }
