//# Area: constructors
//# Lib: first.so
//# Lib: second.so first.so
//# Lib: main.so first.so second.so
/* The order of DT_NEEDED is not the order of constructors where objects need each other. */
#include "case.h"
#if defined FIRST
#define NAME "first"
int first(void) { return 1; }
#elif defined SECOND
#define NAME "second"
int first(void);
int second(void) { return first(); }
#else
#define NAME "main"
int second(void);
void test(void) { say("test %d", second()); }
#endif
CONSTRUCTOR static void begin(void) { say("begin " NAME); }
DESTRUCTOR static void end(void) { say("end " NAME); }
