//# Area: ifunc
//# Lib: main.so
//# Expect-output: 1
//# Expect-output: 1
/* The resolver asks the processor, as libraries with several code paths do. On AArch64 its arguments say the same. */
#include "case.h"
#ifdef __aarch64__
#include <sys/auxv.h>
#include <sys/ifunc.h>
#endif
static int with(void) { return 1; }
static int without(void) { return 0; }
#ifdef __aarch64__
static void *resolve(uint64_t capabilities, const __ifunc_arg_t *more)
{
    int is_marked = (capabilities & _IFUNC_ARG_HWCAP) != 0 && more->_size >= 3 * sizeof(long);
    uint64_t first = capabilities & ~_IFUNC_ARG_HWCAP;
    return is_marked && more->_hwcap == first && (first & HWCAP_FP) ? (void *)with : (void *)without;
}
#else
static void *resolve(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse2") ? (void *)with : (void *)without;
}
#endif
static int indirect(void) __attribute__((ifunc("resolve")));
void test(void) { say("%d", indirect()); }
