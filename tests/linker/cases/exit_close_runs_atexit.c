//# Area: exit
//# Lib: main.so
//# Close: the handlers must run then
/* Closing runs the library's atexit handlers and destructors, then unmaps. */
#include "case.h"
static int n;
static void handler(void) { say("handler %d", n); }
DESTRUCTOR static void end(void) { say("destructor %d", n); }
void test(void)
{
    if (!n++)
        atexit(handler);
}
