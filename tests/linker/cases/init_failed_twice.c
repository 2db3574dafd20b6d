//# Area: failed loads
//# Lib: main.so
/* A missing file, and one that is not a library. */
#include "case.h"
void test(void)
{
    say("%d", dlopen("./not-there.so", RTLD_NOW) == NULL);
    const char *error = dlerror();
    say("%d", error && strstr(error, "not-there.so") != NULL);
    FILE *file = fopen("no-library.so", "w");
    fputs("text\n", file);
    fclose(file);
    say("%d", dlopen("./no-library.so", RTLD_NOW) == NULL);
    error = dlerror();
    say("%d %d", error && strstr(error, "no-library.so") != NULL, dlerror() == NULL);
}
