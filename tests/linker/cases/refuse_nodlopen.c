//# Area: refusals
//# Lib: main.so -Wl,-z,nodlopen
//# Expect-error: shared object cannot be dlopen()ed
/* DF_1_NOOPEN: a library that has to be there from the start of a program. */
#include "case.h"
void test(void) { say("never"); }
