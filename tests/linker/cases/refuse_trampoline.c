//# Area: refusals
//# Lib: main.so -Wl,-z,execstack
//# Expect-error: it needs an executable stack
//# Compilers: gcc
//# Differs: glibc before 2.41 makes the stacks of the process executable
/* A nested function of gcc whose address is taken: it is called through code on the stack. */
#include "case.h"
NOINLINE static int apply(int (*function)(int)) { return function(2); }
void test(void)
{
    volatile int base = 40;
    int add(int value) { return base + value; }
    say("%d", apply(add));
}
