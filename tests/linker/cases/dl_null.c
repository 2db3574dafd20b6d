//# Area: dl functions
//# Lib: dep.so
//# Lib: main.so dep.so
//# Open: main.so GLOBAL
/* dlopen(NULL) is the program: it finds global definitions. */
#include "case.h"
#ifdef DEP
int value = 3;
#else
extern int value;
void test(void)
{
    void *program = dlopen(NULL, RTLD_NOW);
    int *found = dlsym(program, "value");
    say("%d %d", found == &value, dlsym(program, "malloc") != NULL);
    say("%d", dlsym(RTLD_DEFAULT, "value") == &value);
}
#endif
