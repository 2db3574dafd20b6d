//# Area: ifunc
//# Lib: dep.so
//# Lib: main.so dep.so
//# Compilers: gcc clang
//# Linkers: bfd lld mold
/* An indirect function of another object: called, and by pointer; dlsym gives the same. */
#include "case.h"
#ifdef DEP
static int chosen(void) { return 12; }
static void *resolve(void) { return chosen; }
int indirect(void) __attribute__((ifunc("resolve")));
#else
int indirect(void);
static int (*const pointer)(void) = indirect;
void test(void)
{
    int (*found)(void) = dlsym(dlopen("./dep.so", RTLD_NOW), "indirect");
    say("%d %d %d", indirect(), pointer(), found());
    say("%d %d", pointer == indirect, found == pointer);
}
#endif
