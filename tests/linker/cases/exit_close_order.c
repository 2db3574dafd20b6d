//# Area: exit
//# Lib: dep.so
//# Lib: main.so dep.so
//# Close: the order of destructors is compared
/* Closing destroys the library before its dependencies. */
#include "case.h"
#ifdef DEP
DESTRUCTOR static void end(void) { say("end dep"); }
int dep(void) { return 1; }
#else
int dep(void);
DESTRUCTOR static void end(void) { say("end main %d", dep()); }
void test(void) { say("test %d", dep()); }
#endif
