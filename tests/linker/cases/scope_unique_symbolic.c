//# Area: scope
//# Lib: other.so -Wl,-Bsymbolic
//# Lib: main.so other.so
//# Symbols: off glibc takes the definition that is looked up first, we the one that is loaded first
/* A unique symbol is one for all, also for a library with DT_SYMBOLIC that defines it. Random seed 1176. */
#include "case.h"
__asm__(".pushsection .data\n.balign 4\n.globl one\n.type one,@gnu_unique_object\n.size one,4\n"
        "one: .long 0\n.popsection");
extern int one;
#if defined OTHER
int *other_one(void) { return &one; }
#else
int *other_one(void);
void test(void)
{
    ++*other_one();
    say("%d %d", other_one() == &one, one);
}
#endif
