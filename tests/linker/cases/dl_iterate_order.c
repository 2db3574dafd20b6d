//# Area: dl functions
//# Lib: three.so
//# Lib: two.so three.so
//# Lib: one.so
//# Lib: main.so two.so
//# Steps: 1
//# Modes: program; beside it, other copies are listed too
/* dl_iterate_phdr lists what is loaded in the order of the loads, wherever it lies in memory, and the
   list of link maps leads from each to the next. */
#include "case.h"
#include <link.h>
#if defined ONE || defined TWO || defined THREE
int nothing;
#else
static int visit(struct dl_phdr_info *info, size_t size, void *count)
{
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : "";
    ++*(unsigned long long *)count;
    if (!strcmp(name, "main.so") || !strcmp(name, "one.so") || !strcmp(name, "two.so") ||
        !strcmp(name, "three.so"))
        say("%s", name);
    return 0;
}
void test(void)
{
    unsigned long long count = 0;
    struct link_map *map;
    void *one = dlopen("./one.so", RTLD_NOW);
    dl_iterate_phdr(visit, &count);
    say("%d", dlclose(one));
    one = dlopen("./one.so", RTLD_NOW);
    dl_iterate_phdr(visit, &count);
    for (dlinfo(dlopen("./two.so", RTLD_NOW), RTLD_DI_LINKMAP, &map); map; map = map->l_next)
        say("then %s", strrchr(map->l_name, '/') + 1);
}
#endif
