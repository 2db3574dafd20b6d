//# Area: ifunc
//# Lib: dep.so
//# Lib: main.so dep.so
/* The resolver calls into a dependency, which must be relocated before. */
#include "case.h"
#ifdef DEP
static int answer = 8;
static int *const pointer = &answer;
int ask(void) { return *pointer; }
#else
int ask(void);
static int eight(void) { return 8; }
static int other(void) { return 0; }
static void *resolve(void) { return ask() == 8 ? (void *)eight : (void *)other; }
static int indirect(void) __attribute__((ifunc("resolve")));
void test(void) { say("%d", indirect()); }
#endif
