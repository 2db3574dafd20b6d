//# Area: unloading
//# Lib: dep.so
//# Lib: main.so
//# Modes: program; other domains keep what they have loaded
/* atexit handlers of an unloaded library run at the unload. */
#include "case.h"
#ifdef DEP
static void handler(void) { say("handler"); }
void use(void) { atexit(handler); }
#else
void test(void)
{
    void *dep = dlopen("./dep.so", RTLD_NOW);
    ((void (*)(void))dlsym(dep, "use"))();
    dlclose(dep);
    say("closed");
}
#endif
