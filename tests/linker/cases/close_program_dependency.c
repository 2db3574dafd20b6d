//# Area: unloading
//# Lib: deep.so
//# Lib: dep.so deep.so
//# Lib: main.so
//# Modes: program; other domains keep what they have loaded
/* Dependencies go with the last library that needs them, after it. */
#include "case.h"
#if defined DEEP
int deep(void) { return 1; }
DESTRUCTOR static void end(void) { say("end deep"); }
#elif defined DEP
int deep(void);
int dep(void) { return deep(); }
DESTRUCTOR static void end(void) { say("end dep %d", deep()); }
#else
void test(void)
{
    void *dep = dlopen("./dep.so", RTLD_NOW), *deep = dlopen("./deep.so", RTLD_NOW);
    dlclose(dep);
    say("dep closed");
    dlclose(deep);
    say("deep closed");
}
#endif
