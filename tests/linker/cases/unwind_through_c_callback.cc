//# Area: unwinding
//# Lib: main.so -fexceptions
/* Through a callback of the C library (qsort has unwind tables). */
#include "case.h"
static int compare(const void *, const void *) { throw 5; }
void test(void)
{
    int values[3] = {3, 2, 1};
    try {
        qsort(values, 3, sizeof *values, compare);
    } catch (int code) {
        say("%d", code);
    }
}
