//# Area: mapping
//# Lib: main.so
//# Linkers: bfd lld mold gold
/* The rest of the data's last page begins as zeroes although the file goes on there. */
#include "case.h"
static char data[100] = "x";
static char bss[20000];
void test(void)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < sizeof bss; i++)
        sum += bss[i];
    say("%c %u", data[0], sum);
}
