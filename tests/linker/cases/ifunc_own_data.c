//# Area: ifunc
//# Lib: main.so
//# Linkers: bfd lld mold
/* The resolver reads relocated data of its own object: it runs after all other relocations. */
#include "case.h"
static int one(void) { return 1; }
static int two(void) { return 2; }
int choice = 2;
int *const choice_pointer = &choice;
static void *resolve(void) { return *choice_pointer == 2 ? (void *)two : (void *)one; }
int indirect(void) __attribute__((ifunc("resolve")));
static int (*const table[])(void) = {indirect, one};
void test(void) { say("%d %d %d", indirect(), table[0](), table[1]()); }
