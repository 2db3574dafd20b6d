//# Area: scope
//# Lib: leaf.so
//# Lib: main.so leaf.so
/* A library that brings an allocator, or whatever the C library has too, gets the program's, as under
   glibc, where that is in the global scope: what `strdup` allocates `free` must know. Seen in libjemalloc.so
   of a wheel. */
#include "case.h"
#include <stdlib.h>
#if defined LEAF
#pragma GCC diagnostic ignored "-Wbuiltin-declaration-mismatch"
static int freed;
void free(void *block) { freed++; }
long labs(long number) { return 42; }
int leaf_freed(void) { free(strdup("leaf")); return freed; }
long leaf_labs(void)
{
    static long (*volatile labs_at_run_time)(long) = labs;
    return labs_at_run_time(-1);
}
/* Not the C library's: the library's own. */
int own(void) { return 1; }
#else
int leaf_freed(void), own(void);
long leaf_labs(void);
static void (*volatile release)(void *) = free;
void test(void)
{
    release(strdup("main"));
    say("%d %ld %d", leaf_freed(), leaf_labs(), own());
}
#endif
