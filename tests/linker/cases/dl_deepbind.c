//# Area: dl functions
//# Lib: provider.so
//# Lib: plugin.so
//# Lib: main.so
//# Symbols: off two libraries define one name
/* RTLD_DEEPBIND: the plugin prefers its own definition to a global one. */
#include "case.h"
#if defined PROVIDER
int who(void) { return 1; }
#elif defined PLUGIN
int who(void) { return 2; }
int plugin_who(void) { return who(); }
#else
void test(void)
{
    dlopen("./provider.so", RTLD_NOW | RTLD_GLOBAL);
    void *plugin = dlopen("./plugin.so", RTLD_NOW | RTLD_DEEPBIND);
    say("%d", ((int (*)(void))dlsym(plugin, "plugin_who"))());
}
#endif
