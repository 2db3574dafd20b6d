//# Area: mapping
//# Lib: main.so -Wl,-z,noseparate-code
//# Linkers: bfd lld mold
/* Headers, constants and code in one executable segment. */
#include "case.h"
static const char text[] = "one segment";
void test(void) { static int n; say("%s %d", text, ++n); }
