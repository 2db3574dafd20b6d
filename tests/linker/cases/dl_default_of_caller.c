//# Area: dl functions
//# Lib: behind.so
//# Lib: symbolic.so -Wl,-Bsymbolic
//# Lib: deep.so behind.so
//# Lib: main.so symbolic.so
//# Open: main.so GLOBAL
//# Steps: 1
/* RTLD_DEFAULT is the scope of who calls: DT_SYMBOLIC and RTLD_DEEPBIND count there as for its references.
   Random seeds 1075, 1086. */
#include "case.h"
typedef int function(void);
#if defined BEHIND
int who(void) { return 2; }
#elif defined SYMBOLIC
int who(void) { return 1; }
int symbolic_default(void) { return ((function *)dlsym(RTLD_DEFAULT, "who"))(); }
#elif defined DEEP
int deep_default(void) { return ((function *)dlsym(RTLD_DEFAULT, "who"))(); }
#else
int who(void) { return 0; }
int symbolic_default(void);
void test(void)
{
    void *deep = dlopen("./deep.so", RTLD_NOW | RTLD_DEEPBIND);
    say("%d", ((function *)dlsym(deep, "deep_default"))());
    say("%d %d", symbolic_default(), ((function *)dlsym(RTLD_DEFAULT, "who"))());
}
#endif
