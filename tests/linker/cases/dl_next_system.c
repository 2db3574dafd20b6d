//# Area: dl functions
//# Lib: main.so
//# Differs: for glibc a library that is opened comes after the program and its C library; a domain is a program of its own, whose definitions come first
//# Program: glibc
//# Expect-output: 104
//# Expect-output: 104
/* RTLD_NEXT reaches the C library. */
#include "case.h"
size_t strlen(const char *text)
{
    size_t (*next)(const char *) = (size_t (*)(const char *))dlsym(RTLD_NEXT, "strlen");
    return next(text) + 100;
}
void test(void)
{
    size_t (*volatile function)(const char *) = strlen;
    say("%d", (int)function("four"));
}
