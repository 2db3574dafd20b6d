//# Area: unloading
//# Lib: dep.so
//# Lib: main.so
//# Modes: program; other domains keep what they have loaded
/* Thread-local data begins anew after an unload. */
#include "case.h"
#ifdef DEP
__thread int value = 7;
__thread char big[5000] = {1};
int next(void) { return value++ + big[0]++; }
#else
void test(void)
{
    for (int i = 0; i < 3; i++) {
        void *dep = dlopen("./dep.so", RTLD_NOW);
        int (*next)(void) = (int (*)(void))dlsym(dep, "next");
        int first = next();
        say("%d %d", first, next());
        dlclose(dep);
    }
}
#endif
