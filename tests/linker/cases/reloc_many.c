//# Area: relocations
//# Lib: main.so
//# Linkers: bfd lld mold
/* Thousands of words over many pages, each of them checked. */
#include "case.h"
#define TEN(x) x x x x x x x x x x
#define ENTRY {&values[0], 0}, {&values[1], 1}, {&values[2], 2},
static int values[3];
static struct { int *pointer; long index; } table[] = {TEN(TEN(TEN(ENTRY)))};
void test(void)
{
    unsigned wrong = 0, count = sizeof table / sizeof *table;
    for (unsigned i = 0; i < count; i++)
        wrong += table[i].pointer != &values[table[i].index];
    say("%u entries, %u wrong", count, wrong);
}
