//# Area: search
//# Lib: dep.so -Wl,-soname,other_name.so
//# Lib: main.so
/* A file opened by path, then by its soname, is one library. */
#include "case.h"
#ifdef DEP
int value = 1;
#else
void test(void)
{
    void *by_path = dlopen("./dep.so", RTLD_NOW);
    void *by_name = dlopen("other_name.so", RTLD_NOW);
    say("%d %d", by_path != NULL, by_path == by_name);
}
#endif
