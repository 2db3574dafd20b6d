//# Area: ifunc
//# Lib: main.so
/* libc's own indirect functions, called and by pointer. */
#include "case.h"
static void *(*const copy)(void *, const void *, size_t) = memcpy;
static size_t (*const length)(const char *) = strlen;
void test(void)
{
    char text[32];
    copy(text, "indirect", 9);
    say("%s %zu %d", text, length(text), copy == memcpy);
}
