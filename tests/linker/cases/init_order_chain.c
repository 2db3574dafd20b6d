//# Area: constructors
//# Lib: c.so
//# Lib: b.so c.so
//# Lib: main.so b.so
//# Linkers: bfd lld mold
/* Dependencies are constructed first and destroyed last. */
#include "case.h"
#if defined C
#define NAME "c"
int c(void) { return 3; }
#elif defined B
#define NAME "b"
int c(void);
int b(void) { return c(); }
#else
#define NAME "main"
int b(void);
void test(void) { say("test %d", b()); }
#endif
CONSTRUCTOR static void begin(void) { say("begin " NAME); }
DESTRUCTOR static void end(void) { say("end " NAME); }
