//# Area: failed loads
//# Lib: broken.so
//# Lib: main.so
/* A load that fails runs no constructor and leaves no library behind. */
#include "case.h"
#ifdef BROKEN
extern int nobody;
CONSTRUCTOR static void begin(void) { say("never"); }
DESTRUCTOR static void end(void) { say("never"); }
int use(void) { return nobody; }
#else
void test(void)
{
    void *handle = dlopen("./broken.so", RTLD_NOW);
    const char *error = dlerror();
    say("%d %d %d", handle == NULL, error && strstr(error, "nobody") != NULL, dlerror() == NULL);
    say("%d", dlopen("./broken.so", RTLD_NOW | RTLD_NOLOAD) == NULL);
}
#endif
