//# Area: relocations
//# Lib: main.so
//# Patch: main.so rela.SLOT.0.type=0
//# Symbols: off one weak reference of the start files is what the patch switches off
/* R_X86_64_NONE, or R_AARCH64_NONE, is passed over (in place of the weak reference to __cxa_finalize or a like one). */
#include "case.h"
void test(void) { say("none"); }
