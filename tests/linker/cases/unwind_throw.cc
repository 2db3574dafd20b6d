//# Area: unwinding
//# Lib: main.so
//# Compilers: gcc clang
//# Linkers: bfd lld mold gold
/* An exception is caught in its own library. */
#include "case.h"
#include <stdexcept>
NOINLINE static void thrower(int n) { throw std::runtime_error(n > 1 ? "second" : "first"); }
void test(void)
{
    static int n;
    try {
        thrower(++n);
    } catch (const std::exception &error) {
        say("%s", error.what());
    }
}
