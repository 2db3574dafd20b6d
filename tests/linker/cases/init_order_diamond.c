//# Area: constructors
//# Lib: base.so
//# Lib: left.so base.so
//# Lib: right.so base.so
//# Lib: main.so left.so right.so
/* A diamond: the base first and once. */
#include "case.h"
#if defined BASE
#define NAME "base"
int base(void) { return 1; }
#elif defined LEFT
#define NAME "left"
int base(void);
int left(void) { return base(); }
#elif defined RIGHT
#define NAME "right"
int base(void);
int right(void) { return base(); }
#else
#define NAME "main"
int left(void), right(void);
void test(void) { say("test %d", left() + right()); }
#endif
CONSTRUCTOR static void begin(void) { say("begin " NAME); }
DESTRUCTOR static void end(void) { say("end " NAME); }
