//# Area: dl functions
//# Lib: dep.so
//# Lib: main.so
/* RTLD_NOLOAD loads nothing. */
#include "case.h"
#ifdef DEP
int value;
#else
void test(void)
{
    static int n;
    say("%d", dlopen("./dep.so", RTLD_NOW | RTLD_NOLOAD) != NULL);
    if (!n++)
        say("%d", dlopen("./dep.so", RTLD_NOW) != NULL);
    say("%d", dlopen("./dep.so", RTLD_NOW | RTLD_NOLOAD) != NULL);
}
#endif
