//# Area: unloading
//# Lib: dep.so
//# Lib: main.so
//# Modes: program; other domains keep what they have loaded
//# Steps: 1
//# Exit: 3
//# Expect-output: closed
//# Expect-output: own handler
/* Handlers of at_quick_exit that an unloaded library registered are forgotten; those of others run. */
#include "case.h"
#ifdef DEP
static void handler(void) { say("handler: never"); }
void use(void) { at_quick_exit(handler); }
#else
static void handler(void) { say("own handler"); }
void test(void)
{
    void *dep = dlopen("./dep.so", RTLD_NOW);
    at_quick_exit(handler);
    ((void (*)(void))dlsym(dep, "use"))();
    dlclose(dep);
    say("closed");
    quick_exit(3);
}
#endif
