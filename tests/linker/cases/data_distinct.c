//# Area: copies
//# Lib: dep.so
//# Lib: main.so dep.so
//# Steps: 5
//# Compilers: gcc clang
//# Linkers: bfd lld mold gold
/* Data, bss and pointers to them count for each copy alone, in dependencies too. */
#include "case.h"
#ifdef DEP
int data = 5;
int bss;
int *const pointer = &bss;
#else
extern int data, bss;
extern int *const pointer;
static int own;
void test(void) { say("%d %d %d %d", ++data, ++bss, *pointer, ++own); }
#endif
