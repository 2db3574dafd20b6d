//# Area: mapping
//# Lib: main.so
/* Function pointers into shared text are different in each copy and call the copy's own data. */
#include "case.h"
static int n;
int add(void) { return ++n; }
int (*volatile pointer)(void) = add;
void test(void) { say("%d %d", pointer(), pointer == add); }
