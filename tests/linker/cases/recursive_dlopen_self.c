//# Area: recursion and threads
//# Lib: main.so
/* A constructor opens its own library again. */
#include "case.h"
static int same = -1;
CONSTRUCTOR static void begin(void)
{
    void *self = dlopen("./main.so", RTLD_NOW);
    same = self != NULL && dlsym(self, "test") == (void *)test;
}
void test(void) { say("%d", same); }
