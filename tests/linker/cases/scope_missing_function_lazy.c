//# Area: scope
//# Lib: main.so
//# Open: main.so LAZY
//# Linkers: bfd lld mold
/* A function that nobody defines is no error while nobody calls it. */
#include "case.h"
int nobody(void);
static volatile int never;
void test(void)
{
    if (never)
        nobody();
    say("%d", never);
}
