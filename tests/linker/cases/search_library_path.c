//# Area: search
//# Lib: sub/dep.so
//# Lib: main.so sub/dep.so -Wl,-rpath,/nowhere
//# Env: LD_LIBRARY_PATH=sub
/* LD_LIBRARY_PATH, with a relative directory. */
#include "case.h"
#ifdef SUB_DEP
int value = 4;
#else
extern int value;
void test(void) { say("%d", value++); }
#endif
