//# Area: search
//# Lib: sub/dep.so
//# Lib: main.so -Lsub sub/dep.so -Wl,--enable-new-dtags,-rpath,$ORIGIN/sub
//# Linkers: bfd lld mold
/* DT_RUNPATH with $ORIGIN. */
#include "case.h"
#ifdef SUB_DEP
int value = 4;
#else
extern int value;
void test(void) { say("%d", value++); }
#endif
