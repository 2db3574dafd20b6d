//# Area: unloading
//# Lib: provider.so
//# Lib: user.so
//# Lib: main.so
//# Modes: program; other domains keep what they have loaded
/* A library whose definition another one uses stays, although that does not name it. */
#include "case.h"
#if defined PROVIDER
int value = 5;
DESTRUCTOR static void end(void) { say("end provider"); }
#elif defined USER
extern int value;
int use(void) { return value++; }
DESTRUCTOR static void end(void) { say("end user"); }
#else
void test(void)
{
    void *provider = dlopen("./provider.so", RTLD_NOW | RTLD_GLOBAL);
    void *user = dlopen("./user.so", RTLD_NOW);
    dlclose(provider);
    say("%d", ((int (*)(void))dlsym(user, "use"))());
    dlclose(user);
    say("closed");
}
#endif
