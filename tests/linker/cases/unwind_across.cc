//# Area: unwinding
//# Lib: dep.so
//# Lib: main.so dep.so
//# Compilers: gcc clang
//# Linkers: bfd lld
/* An exception of a type that both libraries have crosses from one to the other, with clean-ups. */
#include "case.h"
struct Failure { int code; virtual ~Failure() {} };
struct Special : Failure {};
#ifdef DEP
struct Guard { ~Guard() { say("guard"); } };
extern "C" void fail(int code)
{
    Guard guard;
    Special special;
    special.code = code;
    throw special;
}
#else
extern "C" void fail(int);
void test(void)
{
    static int n = 40;
    try {
        fail(++n);
    } catch (const Failure &failure) {
        say("%d %d", failure.code, dynamic_cast<const Special *>(&failure) != nullptr);
    }
}
#endif
