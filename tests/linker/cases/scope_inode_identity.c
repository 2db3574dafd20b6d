//# Area: search
//# Lib: dep.so
//# Lib: main.so
//# Modes: one interleaved; the links are made once in the folder
/* A hard link and a symbolic link to one file are one library. */
#include "case.h"
#include <unistd.h>
#ifdef DEP
int value = 1;
#else
void test(void)
{
    link("dep.so", "hard.so");
    symlink("dep.so", "soft.so");
    void *first = dlopen("./dep.so", RTLD_NOW);
    say("%d %d", first == dlopen("./hard.so", RTLD_NOW), first == dlopen("./soft.so", RTLD_NOW));
}
#endif
