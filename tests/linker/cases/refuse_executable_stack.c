//# Area: refusals
//# Lib: main.so -Wl,-z,execstack
//# Expect-error: executable stack
//# Differs: glibc before 2.41 makes the stacks of the process executable
/* PT_GNU_STACK with PF_X. */
#include "case.h"
void test(void) { say("never"); }
