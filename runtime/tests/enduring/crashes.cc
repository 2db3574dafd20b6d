// Crashes of many kinds. Frames stay as they are written.
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

static __attribute__((noinline)) void writes(int *place) { *(volatile int *)place = 1; }
static int compares(const void *, const void *) { writes((int *)16); return 0; }
static void *starts(void *) { writes((int *)16); return 0; }
struct Base {
    Base() { calls(); }
    void calls() { pure(); }
    virtual void pure() = 0;
    virtual ~Base() {}
};
struct Derived : Base { void pure() override {} };

extern "C" {
__attribute__((noinline)) int overflows(int depth) {
    volatile char room[512];
    room[0] = (char)depth;
    return overflows(depth + 1) + room[0];
}
void crashes() { writes((int *)16); __asm__ volatile(""); }
void throws() { throw std::runtime_error("nobody"); }
void calls_null() { void (*volatile none)() = 0; none(); __asm__ volatile(""); }
void jumps() { void (*volatile wild)() = (void (*)())0x123456789; wild(); __asm__ volatile(""); }
int divides(int by) { volatile int zero = by; return 7 / zero; }
void illegal() { __builtin_trap(); }
void asserts() { assert(!"is true"); }
void terminates() { std::terminate(); }
void sorts() { int two[2] = { 1, 0 }; qsort(two, 2, sizeof *two, compares); __asm__ volatile(""); }
void is_out_of_range() { std::vector<int> few(3); few.at(7) = 1; }
void calls_pure() { Derived derived; __asm__ volatile(""); }
void holds_a_mutex() { static std::mutex mutex; std::lock_guard<std::mutex> held(mutex); crashes(); }
void crashes_on_a_thread() { std::thread thread(crashes); thread.join(); }
void crashes_on_a_thread_of_c() {
    pthread_t thread;
    pthread_create(&thread, 0, starts, 0);
    pthread_join(thread, 0);
}
void bus() {
    char name[] = "/tmp/hydrozoa-crash-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    char *page = (char *)mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    *(volatile char *)page;
}
}
