//# Area: scope
//# Lib: early.so
//# Lib: late.so
//# Lib: root.so early.so late.so
//# Lib: main.so
//# Steps: 1
/* A library that was loaded before keeps its breadth-first place in the scope of a later load (gABI, "Shared Object
   Dependencies"): new libraries are not searched before it. Random seed 4468. */
#include "case.h"
#if defined EARLY
int f(void) { return 1; }
#elif defined LATE
int f(void) { return 2; }
#elif defined ROOT
int f(void);
int ask(void) { return f(); }
#else
void test(void)
{
    dlopen("./early.so", RTLD_NOW);
    int (*ask)(void) = (int (*)(void))dlsym(dlopen("./root.so", RTLD_NOW), "ask");
    say("%d", ask());
}
#endif
