//# Area: search
//# Lib: sub/dep.so -no-soname
//# Lib: main.so sub/dep.so
/* A DT_NEEDED entry with a slash is a path, relative to the working directory. */
#include "case.h"
#ifdef SUB_DEP
int value = 4;
#else
extern int value;
void test(void) { say("%d", value++); }
#endif
