//# Area: dl functions
//# Lib: dep.so
//# Lib: main.so
/* dl_iterate_phdr's counter of additions moves when a library comes. */
#include "case.h"
#include <link.h>
#ifdef DEP
int value;
#else
static int visit(struct dl_phdr_info *info, size_t size, void *adds)
{
    *(unsigned long long *)adds = info->dlpi_adds;
    return 1;
}
void test(void)
{
    static int n;
    unsigned long long before = 0, after = 0;
    dl_iterate_phdr(visit, &before);
    dlopen("./dep.so", RTLD_NOW);
    dl_iterate_phdr(visit, &after);
    if (!n++)
        say("%d", after > before);
}
#endif
