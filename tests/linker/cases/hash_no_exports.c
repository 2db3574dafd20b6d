//# Area: hash tables
//# Lib: dep.so -fvisibility=hidden
//# Lib: main.so dep.so
//# Linkers: bfd lld mold
/* A dependency that exports nothing has an empty hash table; its constructor runs all the same. */
#include "case.h"
#ifdef DEP
static int n;
CONSTRUCTOR static void count(void) { n++; say("constructed %d", n); }
#else
void test(void) { say("%d", dlsym(RTLD_DEFAULT, "count") == NULL); }
#endif
