//# Area: refusals
//# Lib: dep.so
//# Lib: main.so dep.so
//# Patch: main.so rela.ABSOLUTE.0.type=COPY
//# Expect-error: copy relocations belong in executables
//# Differs: glibc copies
/* R_X86_64_COPY, or R_AARCH64_COPY, in a shared object. */
#include "case.h"
#ifdef DEP
int shared = 1;
#else
extern int shared;
int *pointer = &shared;
void test(void) { say("%d", *pointer); }
#endif
