//# Area: hash tables
//# Lib: dep.so
//# Lib: main.so dep.so
//# Linkers: bfd lld mold gold
/* A thousand exported names, each looked up by name. */
#include "case.h"
#define SYMBOL(n) int symbol_##n = n;
#define TEN(p) SYMBOL(p##0) SYMBOL(p##1) SYMBOL(p##2) SYMBOL(p##3) SYMBOL(p##4) \
               SYMBOL(p##5) SYMBOL(p##6) SYMBOL(p##7) SYMBOL(p##8) SYMBOL(p##9)
#define HUNDRED(p) TEN(p##0) TEN(p##1) TEN(p##2) TEN(p##3) TEN(p##4) \
                   TEN(p##5) TEN(p##6) TEN(p##7) TEN(p##8) TEN(p##9)
#ifdef DEP
HUNDRED(1) HUNDRED(2) HUNDRED(3) HUNDRED(4) HUNDRED(5)
HUNDRED(6) HUNDRED(7) HUNDRED(8) HUNDRED(9)
#else
extern int symbol_100;
void test(void)
{
    void *dep = dlopen("./dep.so", RTLD_NOW);
    long sum = symbol_100;
    for (int i = 101; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof name, "symbol_%d", i);
        int *found = dlsym(dep, name);
        sum += found ? *found : -100000;
    }
    say("%ld %d", sum, dlsym(dep, "symbol_1000") == NULL);
}
#endif
