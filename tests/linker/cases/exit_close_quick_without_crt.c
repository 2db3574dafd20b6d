//# Area: exit
//# Lib: main.so -nostartfiles
//# Close: nothing in the file calls __cxa_finalize
//# Ends: quick_exit
//# Differs: without crtbegin's __do_global_dtors_aux nobody tells glibc that the library goes, and quick_exit then calls into unmapped memory
//# Expect-output: registered
//# Expect-output: registered
/* Handlers of quick_exit registered by an object without the start files are forgotten at close. */
#include "case.h"
HIDDEN void *__dso_handle = &__dso_handle;
int __cxa_at_quick_exit(void (*)(void *), void *);
static void handler(void *unused) { say("handler: never"); }
void test(void)
{
    __cxa_at_quick_exit(handler, __dso_handle);
    say("registered");
}
