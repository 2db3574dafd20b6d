// A library whose functions crash, for tests/containment.rs and tests/endurance.rs. A copy of it named `beginning-KIND` does so in a constructor.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <assert.h>
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

extern "C" void __stack_chk_fail(void);
extern "C" void __longjmp_chk(jmp_buf, int);

// Keeps the frame of a function whose last act is a call.
#define STAYS __asm__ volatile("")

static __attribute__((noinline)) void saves(jmp_buf place) {
    volatile char room[65536];
    room[0] = 1;
    setjmp(place);
    room[1] = 1;
}
static __attribute__((noinline)) void writes(int *place) { *(volatile int *)place = 1; }

struct Base { Base() { calls(); } void calls() { pure(); } virtual void pure() = 0; virtual ~Base() {} };
struct Derived : Base { void pure() override {} };
struct Late { virtual void pure() = 0; virtual ~Late() {} };
struct Later : Late { void pure() override {} };
struct Small { char bytes[40]; };

extern "C" {
// Faults.
void crashes() { writes((int *)16); STAYS; }
void calls_null() { void (*volatile none)() = 0; none(); STAYS; }
void jumps() { void (*volatile wild)() = (void (*)())0x123456789; wild(); STAYS; }
int divides(int by) { volatile int zero = by; return 7 / zero; }
void illegal() { __builtin_trap(); }
void bus() {
    char name[] = "/tmp/hydrozoa-crash-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    char *page = (char *)mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    *(volatile char *)page;
}
void uses_freed() {
    Late *freed = new Later();
    memset((void *)freed, 0x41, sizeof *freed);
    freed->pure();
}
void copies_from_nowhere() { static char room[64]; memcpy(room, (char *)16, sizeof room); STAYS; }
__attribute__((noinline)) int overflows(int depth) {
    volatile char room[512];
    room[0] = (char)depth;
    return overflows(depth + 1) + room[0];
}

// Ends by abort(3).
void asserts() { assert(!"is true"); }
void throws() { throw std::runtime_error("nobody"); }
void terminates() { std::terminate(); }
void is_out_of_range() { std::vector<int> few(3); few.at(7) = 1; }
void calls_pure() { Derived derived; STAYS; }
void protects() { __stack_chk_fail(); }
void jumps_back() { jmp_buf place; saves(place); __longjmp_chk(place, 1); }

// Inside of something.
static int compares(const void *, const void *) { crashes(); return 0; }
static int follows(const void *a, const void *b) { return **(int *const *)a - **(int *const *)b; }
void sorts() { int two[2] = { 1, 0 }; qsort(two, 2, sizeof *two, compares); STAYS; }
void sorts_garbage() {
    int *two[2];
    memset(two, 0x5a, sizeof two);
    qsort(two, 2, sizeof *two, follows);
    STAYS;
}
void sorts_by_nothing() {
    int two[2] = { 1, 0 };
    int (*volatile none)(const void *, const void *) = 0;
    qsort(two, 2, sizeof *two, none);
    STAYS;
}
void holds_a_mutex() { static std::mutex mutex; std::lock_guard<std::mutex> held(mutex); crashes(); }
static int begins_with_a_crash() { crashes(); return 1; }
int initializes() { static int value = begins_with_a_crash(); return value; }

// On threads of its own.
void calls_on_a_thread(void (*function)(int)) { std::thread thread([=] { function(0); STAYS; }); thread.join(); }
void crashes_on_a_thread() { std::thread thread(crashes); thread.join(); }
void crashes_on_a_thread_of_c() {
    pthread_t thread;
    pthread_create(&thread, 0, [](void *) -> void * { crashes(); return 0; }, 0);
    pthread_join(thread, 0);
}

// Damage to the heap.
// A compiler leaves out writes to a block that is freed.
static void *(*volatile fills)(void *, int, size_t) = memset;
void frees_twice() { char *volatile block = (char *)malloc(40); free(block); free(block); STAYS; }
void frees_a_long_one_twice() {
    char *volatile block = (char *)malloc(5000), *volatile other = (char *)malloc(5000);
    free(block);
    free(block);
    free(other);
}
void frees_a_large_one_twice() { char *volatile block = (char *)malloc(40 << 20); free(block); free(block); STAYS; }
void deletes_twice() { Small *volatile block = new Small; delete block; delete block; STAYS; }
static bool lies_behind(char *block, char *next, size_t size) { return next > block && next <= block + size + 32; }
static void overflows_into_the_next(size_t size) {
    char *volatile block = (char *)malloc(size), *volatile next = (char *)malloc(size);
    while (!lies_behind(block, next, size)) { block = next; next = (char *)malloc(size); }
    fills(block, 0xee, size + 32);
    free(next);
    free(block);
}
void overflows_a_block() { overflows_into_the_next(40); STAYS; }
void overflows_a_long_block() { overflows_into_the_next(5000); STAYS; }
void overflows_an_object() {
    Small *volatile object = new Small, *volatile next = new Small;
    while (!lies_behind((char *)object, (char *)next, sizeof *object)) { object = next; next = new Small; }
    fills((void *)object, 0xee, sizeof *object + 32);
    delete next;
    delete object;
}
void writes_freed() {
    char *volatile block = (char *)malloc(40);
    free(block);
    fills(block, 0x41, 40);
    for (int i = 0; i < 3; i++) fills(malloc(40), 1, 40);
}
// Free blocks of all lengths point to what cannot be read.
void breaks_malloc() {
    static void *blocks[64];
    for (int size = 16; size < 4096; size += 16) {
        for (int i = 0; i < 64; i++) blocks[i] = malloc(size);
        for (int i = 0; i < 64; i++) { fills(blocks[i], 0x41, size); free(blocks[i]); }
        for (int i = 0; i < 64; i++) fills((char *)blocks[i], 0x41, size);
    }
    for (int size = 16; size < 4096; size += 16) for (int i = 0; i < 80; i++) fills(malloc(size), 1, size);
}
// Those of an arena, whose lists malloc follows.
void breaks_long_blocks() {
    static char *blocks[64];
    for (int i = 0; i < 64; i++) blocks[i] = (char *)malloc(3000);
    for (int i = 0; i < 64; i += 2) free(blocks[i]);
    for (int i = 0; i < 64; i += 2) fills(blocks[i], 0x41, 3000 - 16);
    for (int i = 0; i < 64; i++) fills(malloc(2900), 1, 2900);
}
void reallocates_freed() {
    char *volatile block = (char *)malloc(40);
    free(block);
    fills(realloc(block, 100), 1, 100);
}
void reallocates_a_long_freed_one() {
    char *volatile block = (char *)malloc(5000), *volatile other = (char *)malloc(5000);
    free(block);
    fills(realloc(block, 9000), 1, 9000);
    free(other);
}
void frees_the_middle() { char *volatile block = (char *)calloc(1, 400); free(block + 160); STAYS; }
void frees_nothing_there() { char *volatile block = (char *)malloc(40); free(block + (1 << 30)); STAYS; }
void duplicates_nothing() { char *volatile copy = strdup((char *)16); (void)copy; }
void frees_its_stack() { char room[256]; fills(room, 0, sizeof room); char *volatile middle = room + 128; free(middle); STAYS; }

// For others.
void *takes(size_t size) { return calloc(1, size); }
void frees_this(void *block) { free(block); STAYS; }
void frees_twice_this(void *block) { free(block); free(block); STAYS; }
void enlarges_this(void *block, size_t size) { free(fills(realloc(block, size), 1, size)); STAYS; }
void writes_freed_and_returns() {
    char *volatile blocks[4];
    for (int i = 0; i < 4; i++) blocks[i] = (char *)malloc(88);
    for (int i = 0; i < 4; i++) free(blocks[i]);
    fills(blocks[1], 0x41, 80);
}

// What others hold, or share.
void prints() { printf("%s", (char *)16); fflush(stdout); }
__attribute__((noinline)) void smashes() {
    volatile long room[4];
    for (int i = 0; i < 64; i++) ((volatile long *)room)[i] = 0x4141414141414141;
}
void crashes_in_a_team() {
    #pragma omp parallel num_threads(3)
    if (omp_get_thread_num() == 2) crashes();
}
void ends() { _exit(9); }
}

#define KIND(name) { #name, (void (*)(int))name }
static const struct { const char *name; void (*function)(int); } KINDS[] = {
    KIND(crashes), KIND(calls_null), KIND(jumps), KIND(divides), KIND(illegal), KIND(bus), KIND(uses_freed),
    KIND(copies_from_nowhere), KIND(overflows), KIND(asserts), KIND(throws), KIND(terminates), KIND(is_out_of_range),
    KIND(calls_pure), KIND(protects), KIND(jumps_back), KIND(sorts), KIND(sorts_garbage), KIND(sorts_by_nothing),
    KIND(holds_a_mutex), KIND(initializes), KIND(crashes_on_a_thread), KIND(crashes_on_a_thread_of_c), KIND(frees_twice),
    KIND(frees_a_long_one_twice), KIND(frees_a_large_one_twice), KIND(deletes_twice), KIND(overflows_a_block),
    KIND(overflows_a_long_block), KIND(overflows_an_object), KIND(writes_freed), KIND(breaks_malloc),
    KIND(breaks_long_blocks), KIND(reallocates_freed), KIND(reallocates_a_long_freed_one), KIND(frees_the_middle),
    KIND(frees_nothing_there), KIND(duplicates_nothing), KIND(frees_its_stack), KIND(prints), KIND(smashes),
    KIND(crashes_in_a_team), KIND(ends),
};

static __attribute__((constructor)) void begins() {
    Dl_info info;
    const char *name = dladdr((void *)begins, &info) ? strstr(info.dli_fname, "beginning-") : 0;
    if (!name) return;
    for (auto &kind : KINDS) if (!strcmp(name + strlen("beginning-"), kind.name)) kind.function(0);
}
