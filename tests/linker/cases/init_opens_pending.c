//# Area: constructors
//# Lib: later.so
//# Lib: earlier.so
//# Lib: opened.so later.so earlier.so
//# Lib: main.so
//# Steps: 1
/* A constructor opens a library that its own load has brought and that has still to be constructed: it
   is when dlopen returns, and only once (glibc, elf/dl-init.c). Random seed 1005. */
#include "case.h"
#if defined LATER
int ready;
CONSTRUCTOR static void begin(void) { ready = 1; say("begin later"); }
#elif defined EARLIER
CONSTRUCTOR static void begin(void)
{
    say("begin earlier");
    void *later = dlopen("later.so", RTLD_NOW);
    say("ready: %d", *(int *)dlsym(later, "ready"));
}
#elif defined OPENED
CONSTRUCTOR static void begin(void) { say("begin opened"); }
#else
void test(void) { dlopen("./opened.so", RTLD_NOW); }
#endif
