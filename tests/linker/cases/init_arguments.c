//# Area: constructors
//# Lib: main.so
//# Env: CASE_VALUE=seen
/* Constructors get argc, argv and envp. Behind argv lie the environment and the auxiliary vector, as the kernel lays them
   out; the runtime of Go reads them there. */
#include "case.h"
#include <elf.h>
#include <unistd.h>
static int count;
static const char *value = "none";
static int has_name;
static const char *behind = "none";
static int has_page_size;
CONSTRUCTOR static void begin(int argc, char **argv, char **envp)
{
    count = argc;
    has_name = argv[0] != NULL && argv[argc] == NULL;
    for (; *envp; envp++)
        if (!strncmp(*envp, "CASE_VALUE=", 11))
            value = *envp + 11;
    char **next = argv + argc + 1;
    for (; *next; next++)
        if (!strncmp(*next, "CASE_VALUE=", 11))
            behind = *next + 11;
    for (Elf64_auxv_t *entry = (Elf64_auxv_t *)(next + 1); entry->a_type != AT_NULL; entry++)
        if (entry->a_type == AT_PAGESZ)
            has_page_size = entry->a_un.a_val == (unsigned long)sysconf(_SC_PAGESIZE);
}
void test(void) { say("%d %d %s %s %d", count > 0, has_name, value, behind, has_page_size); }
