//# Area: exit
//# Lib: main.so -nostartfiles
//# Close: nothing in the file calls __cxa_finalize
//# Differs: without crtbegin's __do_global_dtors_aux nobody tells glibc that the library goes, which then calls the handler at exit, into unmapped memory
//# Expect-output: registered
//# Expect-output: again
//# Expect-output: handler
/* Handlers registered with __cxa_atexit by an object without the start files run at close. */
#include "case.h"
HIDDEN void *__dso_handle = &__dso_handle;
int __cxa_atexit(void (*)(void *), void *, void *);
static void handler(void *unused) { say("handler"); }
void test(void)
{
    static int n;
    if (!n++)
        __cxa_atexit(handler, NULL, __dso_handle);
    say(n == 1 ? "registered" : "again");
}
