//# Area: scope
//# Lib: provider.so
//# Lib: main.so
//# Open: provider.so GLOBAL
//# Open: main.so
/* RTLD_GLOBAL: a library opened so serves later loads that do not name it. */
#include "case.h"
#ifdef PROVIDER
int value = 60;
int give(void) { return value++; }
#else
extern int value;
int give(void);
void test(void) { say("%d %d", give(), value); }
#endif
