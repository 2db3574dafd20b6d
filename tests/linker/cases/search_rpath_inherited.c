//# Area: search
//# Lib: sub/deep.so
//# Lib: dep.so sub/deep.so -Wl,--disable-new-dtags,-rpath,/nowhere
//# Lib: main.so dep.so -Wl,--disable-new-dtags,-rpath,$ORIGIN:$ORIGIN/sub
/* The RPATH of who needs an object serves that object's own needs. */
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
