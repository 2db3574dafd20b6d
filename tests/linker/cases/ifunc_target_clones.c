//# Area: ifunc
//# Lib: main.so
/* Function multiversioning by GCC. */
#include "case.h"
__attribute__((target_clones("avx2", "default"), noinline)) int sum(const int *v, int n)
{
    int total = 0;
    for (int i = 0; i < n; i++)
        total += v[i];
    return total;
}
void test(void)
{
    int v[64];
    for (int i = 0; i < 64; i++)
        v[i] = i;
    say("%d", sum(v, 64));
}
