//# Area: dl functions
//# Lib: main.so
//# Differs: glibc reads through the null handle, and the process ends
//# Expect-ours: closed -1: dlclose: no handle was given
//# Expect-ours: asked -1: dlinfo: no handle was given
//# Steps: 1
/* A failed dlopen gives no handle: passing its result on is an error, also from a constructor. */
#include "case.h"
#include <link.h>
CONSTRUCTOR static void begin(void)
{
    int status = dlclose(dlopen("./nowhere.so", RTLD_NOW));
    say("closed %d: %s", status, dlerror());
}
void test(void)
{
    struct link_map *map;
    int status = dlinfo(NULL, RTLD_DI_LINKMAP, &map);
    say("asked %d: %s", status, dlerror());
}
