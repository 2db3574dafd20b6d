//# Area: exit
//# Lib: other.so
//# Lib: main.so
//# Steps: 1
/* A destructor at the end of the program may open and close libraries and ask for errors: the thread's
   own C++ and Rust data is gone by then. Random seed 19. */
#include "case.h"
#if defined OTHER
int value = 3;
#else
static void *opened;
DESTRUCTOR static void end(void)
{
    say("%d", dlsym(opened, "nowhere") == NULL);
    say("%d %d", dlerror() != NULL, dlerror() == NULL);
    say("%d", *(int *)dlsym(opened, "value"));
    say("%d", dlclose(opened));
}
void test(void) { opened = dlopen("./other.so", RTLD_NOW); }
#endif
