//# Area: versions
//# Lib: versioned.so -Wl,-soname,dep.so -Wl,--default-symver
//# Lib: main.so versioned.so
//# Lib: dep.so
//# Open: main.so LAZY
//# Linkers: bfd
//# Differs: glibc's check of needed versions (DT_VERNEED) warns or fails; an object without versions answers every reference in ours as in its lookup
//# Expect-output: 7
//# Expect-output: 7
/* A versioned reference meets an object without versions. */
#include "case.h"
#if defined VERSIONED || defined DEP
int f(void) { return 7; }
#else
int f(void);
void test(void) { say("%d", f()); }
#endif
