//# Area: relocations
//# Lib: dep.so -fPIC
//# Lib: main.so dep.so -fno-pic -mcmodel=large -Wl,-z,notext
//# Compilers: gcc clang
//# Linkers: bfd lld mold gold
//# Sharing: off (code has relocated words)
/* Code that is not position-independent calls indirect functions: its own, whose resolver lies in code with
   relocated words, and another object's. */
#include "case.h"
#ifdef DEP
static int forty(void) { return 40; }
static int (*resolve(void))(void) { return forty; }
int dependency(void) __attribute__((ifunc("resolve")));
#else
int dependency(void);
int answer = 2;
static int two(void) { return answer; }
static int other(void) { return 0; }
static int (*resolve(void))(void) { return sizeof(void *) == 8 ? two : other; }
int own(void) __attribute__((ifunc("resolve")));
void test(void) { say("%d", dependency() + own()); }
#endif
