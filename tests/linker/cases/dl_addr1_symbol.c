//# Area: dl functions
//# Lib: main.so
/* dladdr1 with RTLD_DL_SYMENT gives the entry of the symbol table, and none where no symbol is. */
#include "case.h"
#include <elf.h>
int data[5] = {1};
void test(void)
{
    Dl_info info;
    const Elf64_Sym *symbol = NULL;
    int found = dladdr1(&data[2], &info, (void **)&symbol, RTLD_DL_SYMENT);
    say("%d %s", found, info.dli_sname);
    say("%d %d %d", (int)symbol->st_size, ELF64_ST_TYPE(symbol->st_info),
        (char *)info.dli_fbase + symbol->st_value == (char *)data);
    found = dladdr1((char *)info.dli_fbase + 8, &info, (void **)&symbol, RTLD_DL_SYMENT);
    say("%d %d", found, symbol == NULL);
}
