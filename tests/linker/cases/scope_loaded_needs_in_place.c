//# Area: scope
//# Lib: near.so
//# Lib: beside.so
//# Lib: shared.so near.so
//# Lib: first.so shared.so beside.so
//# Lib: second.so shared.so
//# Lib: main.so
//# Steps: 1
/* The needs of a library that was loaded before have their breadth-first place in the scope of a later load. They come
   before what only the earlier load has brought (gABI, "Shared Object Dependencies"). Random seed 4293. */
#include "case.h"
#if defined NEAR
int f(void) { return 1; }
#elif defined BESIDE
int f(void) { return 2; }
#elif defined SHARED
int of_shared = 3;
#elif defined FIRST || defined SECOND
int f(void);
int ask(void) { return f(); }
#else
void test(void)
{
    int (*first)(void) = (int (*)(void))dlsym(dlopen("./first.so", RTLD_NOW), "ask");
    int (*second)(void) = (int (*)(void))dlsym(dlopen("./second.so", RTLD_NOW), "ask");
    say("%d %d", first(), second());
}
#endif
