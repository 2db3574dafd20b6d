//# Area: tls images
//# Lib: dep.so
//# Lib: main.so dep.so
//# Compilers: gcc clang
/* A thread-local object of another library with a dynamic initialiser: its wrapper function. */
#include "case.h"
#include <thread>
#ifdef DEP
static int count;
int make(void) { return ++count * 100; }
thread_local int made = make();
#else
extern thread_local int made;
void test(void)
{
    int there = 0;
    std::thread([&] { there = made; }).join();
    say("%d %d", made++, there);
}
#endif
