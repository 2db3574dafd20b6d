//# Area: recursion and threads
//# Lib: dep.so
//# Lib: main.so dep.so
/* A dependency's constructor opens the library that needs it, which is not constructed yet. */
#include "case.h"
#ifdef DEP
int opened = -1;
CONSTRUCTOR static void begin(void) { opened = dlopen("./main.so", RTLD_NOW) != NULL; say("dep"); }
#else
extern int opened;
CONSTRUCTOR static void begin(void) { say("main"); }
void test(void) { say("%d", opened); }
#endif
