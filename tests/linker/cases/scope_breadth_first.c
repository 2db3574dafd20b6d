//# Area: scope
//# Lib: deep.so
//# Lib: left.so deep.so
//# Lib: right.so
//# Lib: main.so left.so right.so
/* left needs deep; right comes before deep: breadth first. */
#include "case.h"
#if defined DEEP
int who(void) { return 3; }
int deep_who(void) { return who(); }
#elif defined LEFT
int deep_who(void);
int left_who(void) { return deep_who(); }
#elif defined RIGHT
int who(void) { return 2; }
#else
int left_who(void), who(void);
void test(void) { say("%d %d", left_who(), who()); }
#endif
