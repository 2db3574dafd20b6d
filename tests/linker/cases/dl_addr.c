//# Area: dl functions
//# Lib: main.so
//# Linkers: bfd lld mold
/* dladdr: the file, its base, the symbol at or below the address. */
#include "case.h"
int table[16];
void test(void)
{
    Dl_info info;
    int found = dladdr(&table[3], &info);
    const char *slash = strrchr(info.dli_fname, '/');
    say("%d %s %s %d", found, slash ? slash + 1 : info.dli_fname, info.dli_sname,
        info.dli_saddr == table);
    found = dladdr((char *)test + 1, &info);
    say("%d %s %d %d", found, info.dli_sname, info.dli_saddr == (void *)test,
        memcmp(info.dli_fbase, "\177ELF", 4) == 0);
    int local;
    say("%d", dladdr(&local, &info));
}
