//# Area: scope
//# Lib: provider.so
//# Lib: main.so
//# Open: provider.so
//# Open: main.so
//# Expect-error: undefined symbol
/* RTLD_LOCAL: a library opened so serves no other. */
#include "case.h"
#ifdef PROVIDER
int value = 60;
#else
extern int value;
void test(void) { say("%d", value); }
#endif
