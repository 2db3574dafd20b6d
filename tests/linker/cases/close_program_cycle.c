//# Area: unloading
//# Lib: stub.so -Wl,-soname,b.so
//# Lib: a.so stub.so
//# Lib: b.so a.so
//# Lib: main.so
//# Modes: program; other domains keep what they have loaded
/* Libraries that need each other go together. */
#include "case.h"
#if defined STUB
int b(void) { return 0; }
#elif defined A
int b(void);
int a(void) { return 1; }
int a_b(void) { return b(); }
#elif defined B
int a(void);
int b(void) { return 10 + a(); }
#else
void test(void)
{
    void *a = dlopen("./a.so", RTLD_NOW);
    say("%d", ((int (*)(void))dlsym(a, "a_b"))());
    dlclose(a);
    say("%d %d", dlopen("./a.so", RTLD_NOW | RTLD_NOLOAD) == NULL,
        dlopen("./b.so", RTLD_NOW | RTLD_NOLOAD) == NULL);
}
#endif
