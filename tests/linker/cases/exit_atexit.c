//# Area: exit
//# Lib: main.so
//# Linkers: bfd lld
/* atexit handlers run before destructors, the last one first. */
#include "case.h"
static void first(void) { say("first registered"); }
static void second(void) { say("second registered"); }
DESTRUCTOR static void end(void) { say("destructor"); }
void test(void)
{
    static int n;
    if (!n++) {
        atexit(first);
        atexit(second);
    }
    say("test");
}
