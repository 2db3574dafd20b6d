//# Area: exit
//# Lib: other.so
//# Lib: main.so
//# Steps: 1
//# Modes: program; elsewhere nothing is unloaded, and the order is another one
/* A destructor at the end of the program closes what it has opened: that is not unloaded there and then,
   but ends in its turn (glibc, _dl_fini). */
#include "case.h"
#if defined OTHER
DESTRUCTOR static void end(void) { say("end other"); }
#else
static void *opened;
DESTRUCTOR static void end(void) { say("end main, closes: %d", dlclose(opened)); }
void test(void) { opened = dlopen("./other.so", RTLD_NOW); }
#endif
