//# Area: constructors
//# Lib: stub.so -Wl,-soname,opened.so
//# Lib: needed.so stub.so
//# Lib: opened.so needed.so
//# Lib: main.so
//# Steps: 1
/* The opened library is constructed last, even where its dependencies need it (glibc, _dl_sort_maps
   with force_first). Random seed 46. */
#include "case.h"
#if defined STUB
#elif defined NEEDED
CONSTRUCTOR static void begin(void) { say("begin needed"); }
#elif defined OPENED
CONSTRUCTOR static void begin(void) { say("begin opened"); }
#else
void test(void) { dlopen("./opened.so", RTLD_NOW); }
#endif
