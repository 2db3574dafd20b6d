//# Area: relocations
//# Lib: main.so
//# Linkers: bfd mold
//# Expect-output: 9000 a9000 0
//# Expect-output: 18000 a9000 0
/* Relocated words in many pages in a row, some of them in two pages at once, and zeroes behind. */
#include "case.h"
static int number = 0;
static struct __attribute__((packed)) {
    char letter;
    int *word;
} table[9000] = {[0 ... 8999] = {'a', &number}};
static char behind[20000];
void test(void)
{
    unsigned letters = 0, zeroes = 0;
    for (unsigned i = 0; i < 9000; i++) {
        ++*table[i].word;
        letters += table[i].letter == 'a';
    }
    for (unsigned i = 0; i < sizeof behind; i++)
        zeroes += behind[i];
    say("%d a%u %u", number, letters, zeroes);
}
