//# Area: dl functions
//# Lib: main.so
/* dlerror gives an error once, a success clears nothing that was not read. */
#include "case.h"
void test(void)
{
    say("%d", dlerror() == NULL);
    dlsym(RTLD_DEFAULT, "nobody");
    const char *error = dlerror();
    say("%d %d", error && strstr(error, "nobody") != NULL, dlerror() == NULL);
    say("%d", dlopen("./main.so", 0) == NULL);
    error = dlerror();
    say("%d", error && strstr(error, "mode") != NULL);
}
