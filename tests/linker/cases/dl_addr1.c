//# Area: dl functions
//# Lib: main.so
/* dladdr1 with RTLD_DL_LINKMAP. */
#include "case.h"
#include <link.h>
void test(void)
{
    Dl_info info;
    struct link_map *map = NULL;
    int found = dladdr1((void *)test, &info, (void **)&map, RTLD_DL_LINKMAP);
    const char *slash = map ? strrchr(map->l_name, '/') : NULL;
    say("%d %s %d", found, slash ? slash + 1 : "none", map && map->l_ld != NULL);
}
