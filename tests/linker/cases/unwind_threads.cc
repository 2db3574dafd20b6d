//# Area: unwinding
//# Lib: main.so
/* Thousands of exceptions on several threads. */
#include "case.h"
#include <thread>
#include <vector>
NOINLINE static void thrower(int n) { throw n; }
void test(void)
{
    std::vector<std::thread> threads;
    long sums[4] = {};
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&sums, t] {
            for (int i = 0; i < 1000; i++)
                try {
                    thrower(i);
                } catch (int n) {
                    sums[t] += n;
                }
        });
    for (auto &thread : threads)
        thread.join();
    say("%ld %ld %ld %ld", sums[0], sums[1], sums[2], sums[3]);
}
