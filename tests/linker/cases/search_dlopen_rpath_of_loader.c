//# Area: search
//# Lib: sub/plugin.so
//# Lib: dep.so -Wl,--disable-new-dtags,-rpath,/nowhere
//# Lib: main.so dep.so -Wl,--disable-new-dtags,-rpath,$ORIGIN:$ORIGIN/sub
/* dlopen of a bare name looks into the RPATH of who brought the caller in, too. */
#include "case.h"
#if defined SUB_PLUGIN
int value = 15;
#elif defined DEP
int use(void)
{
    void *plugin = dlopen("plugin.so", RTLD_NOW);
    int *value = plugin ? dlsym(plugin, "value") : NULL;
    return value ? (*value)++ : -1;
}
#else
int use(void);
void test(void) { say("%d", use()); }
#endif
