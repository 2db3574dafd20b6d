//# Area: exit
//# Lib: main.so -nostartfiles
//# Close: a fork after it must not call into the library
//# Differs: as in exit_close_without_crt
//# Expect-output: before 1
//# Expect-output: before 2
/* Fork handlers of a closed library are gone (the driver forks nothing itself; the close must not
   leave handlers that a later case-wide fork would call). */
#include "case.h"
HIDDEN void *__dso_handle = &__dso_handle;
int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);
static void before(void) {}
void test(void)
{
    static int n;
    __register_atfork(before, NULL, NULL, __dso_handle);
    say("before %d", ++n);
}
