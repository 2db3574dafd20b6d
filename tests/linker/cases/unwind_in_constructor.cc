//# Area: unwinding
//# Lib: main.so
/* An exception thrown and caught in a constructor of the library. */
#include "case.h"
static int seen;
CONSTRUCTOR static void begin(void)
{
    try {
        throw 9;
    } catch (int code) {
        seen = code;
    }
}
void test(void) { say("%d", seen); }
