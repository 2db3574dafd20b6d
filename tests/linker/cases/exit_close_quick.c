//# Area: exit
//# Lib: main.so
//# Close: the handlers go with the library
//# Ends: quick_exit
//# Expect-output: registered
//# Expect-output: registered
//# Expect-output: destructor
/* A closed library's handlers of at_quick_exit are forgotten, not called: neither at the close nor at quick_exit. */
#include "case.h"
static void handler(void) { say("handler: never"); }
DESTRUCTOR static void end(void) { say("destructor"); }
void test(void)
{
    at_quick_exit(handler);
    say("registered");
}
