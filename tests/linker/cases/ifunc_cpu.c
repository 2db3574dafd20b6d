//# Area: ifunc
//# Lib: main.so
/* The resolver asks the processor, as libraries with several code paths do. */
#include "case.h"
static int with(void) { return 1; }
static int without(void) { return 0; }
static void *resolve(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse2") ? (void *)with : (void *)without;
}
static int indirect(void) __attribute__((ifunc("resolve")));
void test(void) { say("%d", indirect()); }
