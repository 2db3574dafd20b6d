//# Area: unloading
//# Lib: inner.so
//# Lib: outer.so
//# Lib: main.so
//# Steps: 1
//# Modes: program; other domains keep what they have loaded
/* A destructor closes what its library has opened: that goes when the destructors of the first close have
   run, not within it (glibc, elf/dl-close.c). Random seed 1350. */
#include "case.h"
#if defined INNER
DESTRUCTOR static void end(void) { say("end inner"); }
#elif defined OUTER
static void *inner;
CONSTRUCTOR static void begin(void) { inner = dlopen("inner.so", RTLD_NOW); }
DESTRUCTOR static void end(void) { say("end outer, closes: %d", dlclose(inner)); }
#else
void test(void)
{
    say("%d", dlclose(dlopen("./outer.so", RTLD_NOW)));
    say("%d %d", dlopen("./inner.so", RTLD_NOW | RTLD_NOLOAD) == NULL,
        dlopen("./outer.so", RTLD_NOW | RTLD_NOLOAD) == NULL);
}
#endif
