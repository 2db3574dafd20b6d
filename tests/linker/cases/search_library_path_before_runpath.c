//# Area: search
//# Lib: one/dep.so -UONE_DEP -DDEP=1
//# Lib: two/dep.so -UTWO_DEP -DDEP=2
//# Lib: main.so one/dep.so -Wl,--enable-new-dtags,-rpath,$ORIGIN/one
//# Env: LD_LIBRARY_PATH=two
//# Symbols: off two files of the case define one name
/* RUNPATH comes after LD_LIBRARY_PATH. */
#include "case.h"
#ifdef DEP
int value = DEP;
#else
extern int value;
void test(void) { say("%d", value); }
#endif
