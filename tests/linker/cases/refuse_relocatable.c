//# Area: refusals
//# Lib: main.so
//# Patch: main.so ehdr.e_type=1
//# Expect-error: it is not a shared object: its type is REL
/* An object file. */
#include "case.h"
void test(void) { say("never"); }
