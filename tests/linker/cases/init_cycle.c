//# Area: constructors
//# Lib: stub.so -Wl,-soname,b.so
//# Lib: a.so stub.so
//# Lib: b.so a.so
//# Lib: main.so a.so -Wl,--allow-shlib-undefined
//# Open: main.so
/* Two libraries that need each other: every constructor runs, once. */
#include "case.h"
#if defined STUB
int b(void) { return 0; }
#elif defined A
int b(void);
static int n;
CONSTRUCTOR static void begin(void) { n++; }
int a(void) { return n; }
int a_b(void) { return b(); }
#elif defined B
int a(void);
static int n;
CONSTRUCTOR static void begin(void) { n++; }
int b(void) { return n * 10 + a(); }
#else
int a(void), a_b(void);
void test(void) { say("%d %d", a(), a_b()); }
#endif
