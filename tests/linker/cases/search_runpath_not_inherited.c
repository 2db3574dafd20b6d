//# Area: search
//# Lib: sub/deep.so
//# Lib: dep.so sub/deep.so -Wl,--enable-new-dtags,-rpath,/nowhere
//# Lib: main.so dep.so -Wl,--enable-new-dtags,-rpath,$ORIGIN:$ORIGIN/sub -Wl,--allow-shlib-undefined
//# Expect-error: deep.so
/* A RUNPATH serves its own object only. */
#include "case.h"
#if defined SUB_DEEP
int value = 4;
#elif defined DEP
extern int value;
int use(void) { return value++; }
#else
int use(void);
void test(void) { say("%d", use()); }
#endif
