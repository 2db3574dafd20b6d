//# Area: scope
//# Lib: front.so
//# Lib: main.so
//# Env: LD_PRELOAD={folder}/front.so
//# Steps: 1
//# Expect-output: 77
/* Preloaded libraries precede the C library, for copies as for the program: an allocator, ASan. */
#ifdef FRONT
int getpagesize(void) { return 77; }
#else
#include "case.h"
#include <unistd.h>
void test(void) { say("%d", getpagesize()); }
#endif
