//# Area: refusals
//# Lib: main.so
//# Patch: main.so dynamic.25=0x10000000
//# Expect-error: DT_INIT_ARRAY does not lie in a segment
//# Differs: glibc calls what it reads there and dies of SIGSEGV
/* Constructors outside the segments. */
#include "case.h"
CONSTRUCTOR static void begin(void) { say("never"); }
void test(void) { say("never"); }
