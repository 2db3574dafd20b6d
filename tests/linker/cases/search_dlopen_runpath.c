//# Area: search
//# Lib: sub/plugin.so
//# Lib: main.so -Wl,--enable-new-dtags,-rpath,$ORIGIN/sub
/* dlopen of a bare name looks into the caller's RUNPATH. */
#include "case.h"
#ifdef SUB_PLUGIN
int value = 14;
#else
void test(void)
{
    void *plugin = dlopen("plugin.so", RTLD_NOW);
    int *value = plugin ? dlsym(plugin, "value") : NULL;
    say("%d", value ? (*value)++ : -1);
}
#endif
