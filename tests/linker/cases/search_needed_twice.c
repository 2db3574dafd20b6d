//# Area: search
//# Lib: dep.so
//# Lib: other.so dep.so
//# Lib: main.so dep.so other.so dep.so
/* A library that is needed on several ways is loaded once. */
#include "case.h"
#if defined DEP
static int n;
CONSTRUCTOR static void count(void) { n++; }
int counted(void) { return n; }
#elif defined OTHER
int counted(void);
int other_counted(void) { return counted(); }
#else
int counted(void), other_counted(void);
void test(void) { say("%d %d", counted(), other_counted()); }
#endif
