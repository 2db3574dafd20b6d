//# Area: dl functions
//# Lib: deep.so
//# Lib: dep.so deep.so
//# Lib: main.so
/* dlsym on a handle: the library, then its dependencies. */
#include "case.h"
#if defined DEEP
int deep = 1, both = 11;
#elif defined DEP
extern int deep;
int *use(void) { return &deep; }
int dep = 2, both = 22;
#else
void test(void)
{
    void *handle = dlopen("./dep.so", RTLD_NOW);
    say("%d %d %d", *(int *)dlsym(handle, "deep"), *(int *)dlsym(handle, "dep"),
        *(int *)dlsym(handle, "both"));
    say("%d", dlsym(handle, "test") == NULL);
    const char *error = dlerror();
    say("%d", error && strstr(error, "test") != NULL);
}
#endif
