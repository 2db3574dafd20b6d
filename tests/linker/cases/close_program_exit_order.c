//# Area: exit
//# Lib: second.so
//# Lib: first.so
//# Lib: user.so
//# Lib: main.so
//# Steps: 1
//# Modes: program; elsewhere the last constructed goes first, over all domains
/* At the end of the program libraries that have nothing to do with each other go as they were loaded,
   and who is bound to another's definition before that one (glibc, _dl_fini). Random seeds 13, 45. */
#include "case.h"
#if defined SECOND
int value;
DESTRUCTOR static void end(void) { say("end second"); }
#elif defined FIRST
DESTRUCTOR static void end(void) { say("end first"); }
#elif defined USER
extern int value;
int *use = &value;
DESTRUCTOR static void end(void) { say("end user"); }
#else
DESTRUCTOR static void end(void) { say("end main"); }
void test(void)
{
    dlopen("./first.so", RTLD_NOW);
    dlopen("./second.so", RTLD_NOW | RTLD_GLOBAL);
    dlopen("./user.so", RTLD_NOW);
}
#endif
