//# Area: unloading
//# Lib: stub.so -Wl,-soname,one.so
//# Lib: three.so
//# Lib: two.so stub.so three.so
//# Lib: one.so two.so
//# Lib: main.so
//# Steps: 1
//# Modes: program; other domains have an order of their own at the end
/* A library opened with RTLD_NODELETE stays for good from the first binding of its own load on:
   libraries bound to it do not end before it for that (glibc, elf/dl-open.c, dl_open_worker_begin,
   and elf/dl-lookup.c, add_dependency). Random seed 1413. */
#include "case.h"
#if defined STUB
int nothing;
#elif defined THREE
extern int in_two, in_one;
int read_two(void) { return in_two; }
int *at_one = &in_one;
#elif defined TWO
int in_two = 2;
DESTRUCTOR static void end(void) { say("end two"); }
#elif defined ONE
int in_one = 1;
DESTRUCTOR static void end(void) { say("end one"); }
#else
void test(void) { say("%d", dlopen("./one.so", RTLD_NOW | RTLD_NODELETE) != NULL); }
#endif
