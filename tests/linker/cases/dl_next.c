//# Area: dl functions
//# Lib: second.so
//# Lib: first.so
//# Lib: main.so first.so second.so
/* RTLD_NEXT: a wrapper finds the function that it wraps. */
#include "case.h"
#if defined SECOND
int who(void) { return 2; }
#elif defined FIRST
int who(void)
{
    int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "who");
    return 10 + (next ? next() : -1);
}
#else
int who(void);
void test(void) { say("%d", who()); }
#endif
