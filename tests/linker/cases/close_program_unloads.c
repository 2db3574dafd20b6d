//# Area: unloading
//# Lib: dep.so
//# Lib: main.so
//# Modes: program; other domains keep what they have loaded
/* The last dlclose unloads: data begins anew at the next load, destructors have run. */
#include "case.h"
#ifdef DEP
int value = 1;
DESTRUCTOR static void end(void) { say("end %d", value); }
#else
void test(void)
{
    void *first = dlopen("./dep.so", RTLD_NOW), *second = dlopen("./dep.so", RTLD_NOW);
    ++*(int *)dlsym(first, "value");
    say("%d", dlclose(first));
    say("still %d", *(int *)dlsym(second, "value"));
    say("%d", dlclose(second));
    say("%d", dlopen("./dep.so", RTLD_NOW | RTLD_NOLOAD) == NULL);
}
#endif
