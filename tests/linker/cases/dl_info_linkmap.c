//# Area: dl functions
//# Lib: main.so
/* dlinfo: link map and origin. */
#include "case.h"
#include <link.h>
void test(void)
{
    void *self = dlopen("./main.so", RTLD_NOW);
    struct link_map *map = NULL;
    char origin[4096] = "";
    int a = dlinfo(self, RTLD_DI_LINKMAP, &map), b = dlinfo(self, RTLD_DI_ORIGIN, origin);
    Dl_info info;
    dladdr((void *)test, &info);
    say("%d %d %d %d", a, b, map && (void *)map->l_addr == info.dli_fbase, origin[0] == '/');
}
