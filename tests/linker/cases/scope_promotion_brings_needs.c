//# Area: scope
//# Lib: deep.so
//# Lib: provider.so deep.so
//# Lib: user.so
//# Lib: main.so
/* The needs of a globally opened library become global with it. */
#include "case.h"
#if defined DEEP
int value = 61;
#elif defined PROVIDER
extern int value;
int *where(void) { return &value; }
#elif defined USER
extern int value;
int use(void) { return value++; }
#else
void test(void)
{
    dlopen("./provider.so", RTLD_LAZY | RTLD_GLOBAL);
    void *user = dlopen("./user.so", RTLD_NOW);
    int (*use)(void) = (int (*)(void))dlsym(user, "use");
    say("%d", use());
}
#endif
