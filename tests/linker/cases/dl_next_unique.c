//# Area: dl functions
//# Lib: other.so
//# Lib: main.so other.so
/* A unique symbol is one for whoever asks: dlsym finds the first also behind it, by RTLD_NEXT and by a
   handle of another library. Random seed 31. */
#include "case.h"
#if defined OTHER
#define VALUE "2"
#else
#define VALUE "1"
#endif
__asm__(".pushsection .data\n.balign 4\n.globl one\n.type one,@gnu_unique_object\n.size one,4\n"
        "one: .long " VALUE "\n.popsection");
extern int one;
#if defined OTHER
int *other_one = &one;
#else
extern int *other_one;
void test(void)
{
    void *other = dlopen("other.so", RTLD_NOW);
    say("%d %d", one, other_one == &one);
    say("%d %d", dlsym(RTLD_NEXT, "one") == &one, dlsym(other, "one") == &one);
    say("%d", dlsym(RTLD_DEFAULT, "one") == &one);
}
#endif
