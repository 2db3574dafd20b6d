//# Area: ifunc
//# Lib: first.so
//# Lib: second.so
//# Lib: main.so first.so second.so
/* Two objects define an indirect function of one name: the first in the scope is called by all. */
#include "case.h"
#if defined FIRST || defined SECOND
#ifdef FIRST
#define NUMBER 1
#define CALLER call_first
#else
#define NUMBER 2
#define CALLER call_second
#endif
static int chosen(void) { return NUMBER; }
static void *resolve(void) { return chosen; }
int indirect(void) __attribute__((ifunc("resolve")));
int CALLER(void) { return indirect(); }
#else
int call_first(void), call_second(void), indirect(void);
void test(void) { say("%d %d %d", call_first(), call_second(), indirect()); }
#endif
