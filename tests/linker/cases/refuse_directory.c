//# Area: refusals
//# Lib: main.so
/* A directory and a device are not libraries. */
#include "case.h"
void test(void)
{
    say("%d", dlopen("/tmp/", RTLD_NOW) == NULL);
    say("%d", dlerror() != NULL);
    say("%d", dlopen("/dev/null", RTLD_NOW) == NULL);
    say("%d", dlerror() != NULL);
}
