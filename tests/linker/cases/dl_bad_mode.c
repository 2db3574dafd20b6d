//# Area: dl functions
//# Lib: dep.so
//# Lib: main.so
/* A mode without a binding or with bits that mean nothing is an error, for dlopen(NULL) too. */
#include "case.h"
#include <string.h>
#ifdef DEP
int value = 3;
#else
static int refused(const char *name, int mode)
{
    void *handle = dlopen(name, mode);
    const char *error = dlerror();
    return !handle && error && strstr(error, "invalid mode");
}
void test(void)
{
    say("%d %d", refused(NULL, 0), refused("./dep.so", 0));
    say("%d %d", refused(NULL, -1), refused("./dep.so", RTLD_NOW | 0x40000));
    say("%d", dlopen("./dep.so", RTLD_NOW | RTLD_NOLOAD) != NULL);
    say("%d", dlopen(NULL, RTLD_NOW | RTLD_LAZY) != NULL);
}
#endif
