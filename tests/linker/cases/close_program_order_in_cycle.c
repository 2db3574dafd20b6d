//# Area: unloading
//# Lib: stub.so -Wl,-soname,head.so
//# Lib: tail.so stub.so
//# Lib: middle.so tail.so
//# Lib: head.so middle.so
//# Lib: other.so tail.so
//# Lib: main.so head.so
//# Steps: 1
//# Modes: program; other domains have an order of their own at the end
/* A library that stays when the one opened last goes gets a scope of its own from then on, of the
   libraries it names, also for the order of destructors (glibc, elf/dl-close.c, _dl_close_worker);
   and that order looks at needs a second time only if something is bound to what it does not need
   (glibc, elf/dl-sort-maps.c). In a cycle both are seen. Random seed 3110. */
#include "case.h"
#if defined STUB || defined OTHER
int nothing;
#elif defined TAIL
DESTRUCTOR static void end(void) { say("end tail"); }
#elif defined MIDDLE
DESTRUCTOR static void end(void) { say("end middle"); }
#elif defined HEAD
DESTRUCTOR static void end(void) { say("end head"); }
#else
void test(void)
{
    say("%d", dlclose(dlopen("./other.so", RTLD_NOW)));
    say("%d", dlopen("./head.so", RTLD_NOW) != NULL);
    say("%d", dlopen("./middle.so", RTLD_NOW) != NULL);
}
#endif
