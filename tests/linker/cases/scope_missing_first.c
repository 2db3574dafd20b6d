//# Area: scope
//# Lib: needed.so
//# Lib: main.so needed.so
//# Expect-error: undefined symbol: missing_in_needed
/* Of several missing symbols the error names that of the library that is relocated first, which is the
   one that others need. Random seed 14. */
#include "case.h"
#if defined NEEDED
extern int missing_in_needed;
int *needed = &missing_in_needed;
#else
extern int missing_in_main;
int *own = &missing_in_main;
void test(void) {}
#endif
