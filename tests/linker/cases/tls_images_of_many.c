//# Area: tls images
//# Lib: a.so
//# Lib: b.so
//# Lib: c.so
//# Lib: d.so
//# Lib: main.so a.so b.so c.so d.so
/* Several modules of different kinds: tiny, zero, large, initialised. */
#include "case.h"
#if defined A
__thread char a = 'a';
#elif defined B
__thread int b;
#elif defined C
__thread char c[30000] = {'c'};
#elif defined D
__thread double d[100] = {1.5};
#else
extern __thread char a, c[30000];
extern __thread int b;
extern __thread double d[100];
void test(void) { say("%c %d %c %.1f", a++, b++, c[0]++, d[0]++); }
#endif
