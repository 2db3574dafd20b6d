//# Area: mapping
//# Lib: main.so
/* 4 MiB of data of which single pages are written. */
#include "case.h"
static int data[1 << 20] = {1};
void test(void)
{
    for (int i = 0; i < 1 << 20; i += 1 << 16)
        data[i]++;
    int sum = 0;
    for (int i = 0; i < 1 << 20; i++)
        sum += data[i];
    say("%d", sum);
}
