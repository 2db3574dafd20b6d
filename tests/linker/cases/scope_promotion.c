//# Area: scope
//# Lib: provider.so
//# Lib: user.so
//# Lib: main.so
/* A library opened locally, then globally, serves loads from then on. */
#include "case.h"
#if defined PROVIDER
int value = 60;
#elif defined USER
extern int value;
int use(void) { return value++; }
#else
void test(void)
{
    void *provider = dlopen("./provider.so", RTLD_NOW);
    void *user = dlopen("./user.so", RTLD_NOW);
    say("%d %d", provider != NULL, user != NULL);
    void *again = dlopen("./provider.so", RTLD_NOW | RTLD_GLOBAL);
    user = dlopen("./user.so", RTLD_NOW);
    int (*use)(void) = (int (*)(void))dlsym(user, "use");
    say("%d %d", provider == again, use());
}
#endif
