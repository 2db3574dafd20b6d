//# Area: tls images
//# Lib: late.so
//# Lib: main.so
/* A block that was written keeps its values when other modules are loaded. */
#include "case.h"
#ifdef LATE
__thread int other = 3;
int use(void) { return other++; }
#else
static __thread int value = 1;
static __thread char big[9000] = {2};
void test(void)
{
    value = 50;
    big[0] = 60;
    int (*use)(void) = (int (*)(void))dlsym(dlopen("./late.so", RTLD_NOW), "use");
    int before = use();
    dlopen("./late.so", RTLD_NOW);
    say("%d %d %d %d", value, big[0], before, use());
}
#endif
