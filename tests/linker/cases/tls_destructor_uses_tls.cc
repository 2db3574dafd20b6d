//# Area: tls exit
//# Lib: main.so
/* A destructor at thread exit uses other thread-local data of its object. */
#include "case.h"
#include <thread>
static __thread int plain = 3;
static __thread char big[20000] = {4};
struct Last {
    int value = 0;
    ~Last() { say("%d %d %d", plain, big[0], value); }
};
static thread_local Last last;
void test(void)
{
    std::thread([] { last.value = 1; plain++; big[0]++; }).join();
}
