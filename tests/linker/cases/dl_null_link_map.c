//# Area: dl functions
//# Lib: main.so
/* The handle of dlopen(NULL) is read as the executable's link map, and the list behind it walked: dlinfo's way, and
   that of programs that take the handle itself (ROOT). */
#include "case.h"
#include <link.h>
static int leads_to_libc(struct link_map *map)
{
    for (; map; map = map->l_next)
        if (strstr(map->l_name, "/libc.so"))
            return 1;
    return 0;
}
void test(void)
{
    struct link_map *map = NULL;
    void *program = dlopen(NULL, RTLD_LAZY | RTLD_GLOBAL);
    int status = dlinfo(program, RTLD_DI_LINKMAP, &map);
    say("%d %d '%s'", status, map == program, map->l_name);
    say("%d %d", map->l_ld != NULL, map->l_prev == NULL);
    say("%d %d", leads_to_libc(map), leads_to_libc(program));
}
