//# Area: versions
//# Machine: x86_64
//# Lib: main.so
//# Linkers: bfd lld mold
/* glibc keeps two memcpy and two pthread_cond_init: the version in the reference decides. */
#include "case.h"
__asm__(".symver old_memcpy, memcpy@GLIBC_2.2.5");
void *old_memcpy(void *, const void *, size_t);
void test(void)
{
    char text[8];
    old_memcpy(text, "old", 4);
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    say("%s %d %d", text, dlvsym(libc, "memcpy", "GLIBC_2.2.5") == (void *)old_memcpy,
        dlvsym(libc, "memcpy", "GLIBC_2.14") == dlsym(libc, "memcpy"));
}
