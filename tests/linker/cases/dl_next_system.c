//# Area: dl functions
//# Lib: main.so
/* RTLD_NEXT reaches the C library, behind the library's own definition. */
#include "case.h"
size_t strlen(const char *text)
{
    size_t (*next)(const char *) = (size_t (*)(const char *))dlsym(RTLD_NEXT, "strlen");
    return next(text) + 100;
}
void test(void)
{
    size_t (*next)(const char *) = (size_t (*)(const char *))dlsym(RTLD_NEXT, "strlen");
    size_t (*own)(const char *) =
        (size_t (*)(const char *))dlsym(dlopen("./main.so", RTLD_NOW), "strlen");
    say("%d %d %d", (int)next("four"), (int)own("four"), next == own);
}
