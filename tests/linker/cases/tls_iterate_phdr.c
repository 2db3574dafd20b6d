//# Area: tls system
//# Lib: main.so
/* dl_iterate_phdr reports this object once, with the program headers that it has. */
#include "case.h"
#include <link.h>
static __thread int value = 3;
static int visit(struct dl_phdr_info *info, size_t size, void *count)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    uintptr_t here = (uintptr_t)visit;
    if (!slash || strcmp(slash, "/main.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && here >= start && here < start + header->p_memsz)
            ++*(int *)count;
    }
    return 0;
}
void test(void)
{
    int count = 0;
    dl_iterate_phdr(visit, &count);
    say("%d %d", count, value++);
}
