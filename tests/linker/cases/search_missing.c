//# Area: search
//# Lib: sub/dep.so
//# Lib: main.so sub/dep.so -Wl,-rpath,/nowhere
//# Expect-error: dep.so
/* A dependency that is nowhere: the error names it. */
#include "case.h"
#ifdef SUB_DEP
int value = 4;
#else
extern int value;
void test(void) { say("%d", value++); }
#endif
