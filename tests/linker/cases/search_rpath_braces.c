//# Area: search
//# Lib: sub/dep.so
//# Lib: main.so sub/dep.so -Wl,--disable-new-dtags,-rpath,/nowhere:${ORIGIN}/sub
/* DT_RPATH, the other spelling, and a directory that is not there. */
#include "case.h"
#ifdef SUB_DEP
int value = 4;
#else
extern int value;
void test(void) { say("%d", value++); }
#endif
