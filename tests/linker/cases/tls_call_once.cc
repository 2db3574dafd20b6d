//# Area: tls system
//# Lib: main.so
//# Compilers: gcc clang
/* std::call_once passes its function through libstdc++'s thread-local __once_call. */
#include "case.h"
#include <mutex>
static std::once_flag once;
static int runs;
void test(void)
{
    for (int i = 0; i < 3; i++)
        std::call_once(once, [] { runs++; });
    say("%d", runs);
}
