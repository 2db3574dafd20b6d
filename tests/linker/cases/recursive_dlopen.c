//# Area: recursion and threads
//# Lib: inner.so
//# Lib: outer.so
//# Lib: main.so
/* A constructor opens another library and calls it. */
#include "case.h"
#if defined INNER
static int ready;
CONSTRUCTOR static void begin(void) { ready = 1; say("inner"); }
int inner(void) { return ready; }
#elif defined OUTER
int result = -1;
CONSTRUCTOR static void begin(void)
{
    int (*inner)(void) = (int (*)(void))dlsym(dlopen("./inner.so", RTLD_NOW), "inner");
    result = inner();
    say("outer %d", result);
}
#else
void test(void) { say("%d", *(int *)dlsym(dlopen("./outer.so", RTLD_NOW), "result")); }
#endif
