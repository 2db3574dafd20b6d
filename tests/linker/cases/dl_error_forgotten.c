//# Area: dl functions
//# Lib: main.so
/* Each call of the family forgets an error that nobody asked for: what dlerror says afterwards is about
   the last one. Random seed 41. */
#include "case.h"
void test(void)
{
    void *self = dlopen("./main.so", RTLD_NOW);
    dlsym(self, "nowhere");
    say("%d", dlopen("./absent.so", RTLD_NOW | RTLD_NOLOAD) == NULL);
    dlerror();
    dlsym(self, "nowhere");
    dlsym(self, "test");
    say("%d", dlerror() == NULL);
    dlsym(self, "nowhere");
    dlclose(self);
    say("%d", dlerror() == NULL);
}
