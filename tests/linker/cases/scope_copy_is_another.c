//# Area: search
//# Lib: dep.so
//# Lib: other.so -UOTHER -DDEP
//# Lib: main.so
//# Symbols: off two files of the case define one name
/* Two files with equal content are two libraries. */
#include "case.h"
#ifdef DEP
int value = 1;
#else
void test(void)
{
    int *first = dlsym(dlopen("./dep.so", RTLD_NOW), "value");
    int *second = dlsym(dlopen("./other.so", RTLD_NOW), "value");
    *first += 10;
    *second += 100;
    say("%d %d", *first, *second);
}
#endif
