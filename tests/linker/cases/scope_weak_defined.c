//# Area: scope
//# Lib: first.so
//# Lib: second.so
//# Lib: main.so first.so second.so
/* A weak definition that comes first wins over a strong one that comes later. */
#include "case.h"
#if defined FIRST
__attribute__((weak)) int who(void) { return 1; }
#elif defined SECOND
int who(void) { return 2; }
int second_who(void) { return who(); }
#else
int who(void), second_who(void);
void test(void) { say("%d %d", who(), second_who()); }
#endif
