//# Area: mapping
//# Lib: main.so -Wl,-z,relro,-z,now
//# Linkers: bfd lld mold gold
/* Relocated words are read-only afterwards, data is not. */
#include "case.h"
static int value = 1;
static int *const constant = &value;
static int writable(const void *address)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int found = -1;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        char rights[8];
        if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3 &&
            (unsigned long)address >= start && (unsigned long)address < end)
            found = rights[1] == 'w';
    }
    fclose(maps);
    return found;
}
void test(void) { say("%d %d %d", (*constant)++, writable(&constant), writable(&value)); }
