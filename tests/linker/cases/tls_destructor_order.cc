//# Area: tls exit
//# Lib: main.so
//# Compilers: gcc clang
/* thread_local objects are destroyed in the reverse order, at the thread's exit, with their data. */
#include "case.h"
#include <thread>
struct Speaker {
    int number;
    explicit Speaker(int n) : number(n) { say("begin %d", number); }
    ~Speaker() { say("end %d", number); }
};
static thread_local Speaker first(1);
static thread_local Speaker second(2);
void test(void)
{
    std::thread([] { say("in thread %d %d", first.number, second.number); first.number = 10; }).join();
    say("joined");
}
