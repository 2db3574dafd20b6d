//# Area: constructors
//# Lib: main.so -Wl,-init=begin -Wl,-fini=end
//# Linkers: bfd lld mold
/* DT_INIT before DT_INIT_ARRAY, DT_FINI after DT_FINI_ARRAY. */
#include "case.h"
void begin(void) { say("DT_INIT"); }
void end(void) { say("DT_FINI"); }
CONSTRUCTOR static void array_begin(void) { say("DT_INIT_ARRAY"); }
DESTRUCTOR static void array_end(void) { say("DT_FINI_ARRAY"); }
void test(void) { say("test"); }
