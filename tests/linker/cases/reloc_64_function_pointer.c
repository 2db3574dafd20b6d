//# Area: relocations
//# Lib: dep.so
//# Lib: main.so dep.so
//# Linkers: bfd lld mold
/* One function has one address, wherever it is taken. */
#include "case.h"
typedef int (*function)(void);
#ifdef DEP
int f(void) { return 5; }
function dep_sees(void) { return f; }
#else
int f(void);
function dep_sees(void);
static function const pointer = f;
void test(void)
{
    void *found = dlsym(RTLD_DEFAULT, "f");
    say("%d %d %d", pointer == dep_sees(), pointer == f, pointer());
    say("%s", found == NULL || found == (void *)pointer ? "one address" : "two addresses");
}
#endif
