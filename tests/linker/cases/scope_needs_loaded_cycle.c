//# Area: scope
//# Lib: stub.so -Wl,-soname,b.so
//# Lib: a.so stub.so
//# Lib: b.so a.so
//# Lib: user.so a.so
//# Lib: main.so
//# Steps: 1
/* A library that needs two that are loaded already and need each other. (The load did not come to an
   end in a domain that extends the program: random seed 1011.) */
#include "case.h"
#if defined STUB
int b(void) { return 0; }
#elif defined A
int b(void);
int a(void) { return 1 + b(); }
#elif defined B
int b(void) { return 10; }
#elif defined USER
int a(void), b(void);
int use(void) { return 100 + a() + b(); }
#else
void test(void)
{
    dlopen("./a.so", RTLD_NOW);
    say("%d", ((int (*)(void))dlsym(dlopen("./user.so", RTLD_NOW), "use"))());
}
#endif
