//# Area: exit
//# Lib: main.so
//# Linkers: bfd lld
//# Ends: quick_exit
//# Expect-output: first
//# Expect-output: second
//# Expect-output: quick second
//# Expect-output: quick first
/* quick_exit calls each copy's handlers of at_quick_exit, the last one first, and nothing else. */
#include "case.h"
static void first(void) { say("quick first"); }
static void second(void) { say("quick second"); }
static void never(void) { say("atexit: never"); }
DESTRUCTOR static void end(void) { say("destructor: never"); }
void test(void)
{
    static int n;
    at_quick_exit(n ? second : first);
    atexit(never);
    say(n++ ? "second" : "first");
}
