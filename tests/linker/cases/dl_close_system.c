//# Area: dl functions
//# Lib: main.so
/* Libraries of the system are opened, used and closed through glibc. */
#include "case.h"
void test(void)
{
    void *math = dlopen("libm.so.6", RTLD_NOW);
    double (*cosine)(double) = (double (*)(double))dlsym(math, "cos");
    say("%.1f %d", cosine(0), dlclose(math));
}
