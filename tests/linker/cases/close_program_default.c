//# Area: unloading
//# Lib: provider.so
//# Lib: user.so
//# Lib: main.so
//# Modes: program; other domains keep what they have loaded
/* A definition found by RTLD_DEFAULT stays as long as its finder, as if a relocation had bound it. */
#include "case.h"
#if defined PROVIDER
int value = 5;
DESTRUCTOR static void end(void) { say("end provider"); }
#elif defined USER
static int *found;
int look(void) { return (found = (int *)dlsym(RTLD_DEFAULT, "value")) != NULL; }
int use(void) { return (*found)++; }
DESTRUCTOR static void end(void) { say("end user"); }
#else
void test(void)
{
    void *provider = dlopen("./provider.so", RTLD_NOW | RTLD_GLOBAL);
    void *user = dlopen("./user.so", RTLD_NOW);
    say("%d", ((int (*)(void))dlsym(user, "look"))());
    dlclose(provider);
    say("%d", ((int (*)(void))dlsym(user, "use"))());
    dlclose(user);
    say("closed");
}
#endif
