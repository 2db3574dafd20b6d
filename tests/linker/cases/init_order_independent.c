//# Area: constructors
//# Lib: a.so
//# Lib: b.so
//# Lib: c.so
//# Lib: main.so a.so b.so c.so
/* Objects that do not need each other, in glibc's order. */
#include "case.h"
#if defined A
#define NAME "a"
#elif defined B
#define NAME "b"
#elif defined C
#define NAME "c"
#else
#define NAME "main"
void test(void) { say("test"); }
#endif
CONSTRUCTOR static void begin(void) { say("begin " NAME); }
DESTRUCTOR static void end(void) { say("end " NAME); }
