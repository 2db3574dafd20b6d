//# Area: mapping
//# Lib: main.so -Wl,-z,execstack
//# Linkers: bfd lld mold gold
//# Differs: glibc before 2.41 makes the stacks of the process executable, later ones refuse the library
//# Expect-ours: executable stacks: 0
//# Steps: 1
/* PT_GNU_STACK with PF_X, as linkers write it where an object file lacks .note.GNU-stack. */
#include "case.h"
#include <pthread.h>
static void *look(void *count)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3 && rights[2] == 'x')
            *(int *)count += start <= (uintptr_t)line && (uintptr_t)line < end;
    }
    fclose(maps);
    return NULL;
}
void test(void)
{
    int executable = 0;
    pthread_t thread;
    look(&executable);
    pthread_create(&thread, NULL, look, &executable);
    pthread_join(thread, NULL);
    say("executable stacks: %d", executable);
}
