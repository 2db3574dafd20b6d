//# Area: scope
//# Lib: main.so
//# Open: main.so LAZY
//# Linkers: bfd lld mold
/* An undefined function is an error only once it is called. */
#include "case.h"
int nobody(void);
static volatile int never;
void test(void)
{
    if (never)
        nobody();
    say("%d", never);
}
