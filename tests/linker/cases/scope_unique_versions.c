//# Area: scope
//# Lib: first.so -Wl,--default-symver
//# Lib: second.so first.so -Wl,--default-symver
//# Lib: later.so -Wl,--default-symver
//# Lib: main.so second.so
//# Open: main.so
//# Symbols: off; which library has the one differs: the first that was looked up for glibc, that was loaded for us
/* A unique definition is one for all of its name, whatever version each library gives it (glibc,
   elf/dl-lookup.c, do_lookup_unique). Seen in Qt's libraries. */
#include "case.h"
#define UNIQUE                                                                                     \
    __asm__(".pushsection .data\n.balign 4\n.globl only\n.type only,@gnu_unique_object\n"          \
            ".size only,4\nonly: .long 0\n.popsection");                                           \
    extern int only
#if defined FIRST
UNIQUE;
int first(void) { return ++only; }
#elif defined SECOND
int first(void);
UNIQUE;
int second(void) { return first() * 10 + ++only; }
#elif defined LATER
UNIQUE;
int later(void) { return ++only; }
#else
int second(void);
void test(void)
{
    int (*later)(void) = (int (*)(void))dlsym(dlopen("./later.so", RTLD_NOW), "later");
    say("%d %d", second(), later());
}
#endif
