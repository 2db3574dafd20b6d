//# Area: tls models
//# Lib: zeroed.so -DZEROED
//# Lib: initialised.so -DINITIALISED
//# Lib: large.so -DLARGE
//# Lib: main.so
//# Compilers: gcc clang
//# Steps: 2
/* The id that dl_iterate_phdr has for a module is good for __tls_get_addr, in whichever way the
   module's own code reaches its data. */
#include "case.h"
#include <link.h>
#ifndef MAIN
#ifdef ZEROED
__thread long first, variable;
#elif defined INITIALISED
__thread long first = 3, variable = 4;
#else
__thread long first = 5, variable, rest[2000];
#endif
struct index { unsigned long module, offset; };
extern void *__tls_get_addr(struct index *);
static int look(struct dl_phdr_info *info, size_t size, void *start)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t at = (uintptr_t)look - info->dlpi_addr - header->p_vaddr;
        if (header->p_type == PT_LOAD && at < header->p_memsz) {
            struct index index = {info->dlpi_tls_modid, 0};
            *(char **)start = __tls_get_addr(&index);
            return 1;
        }
    }
    return 0;
}
int inside(void)
{
    char *start = NULL;
    variable++;
    dl_iterate_phdr(look, &start);
    long *places[] = {&first, &variable};
    for (int i = 0; i < 2; i++) {
        size_t at = (char *)places[i] - start;
        if (!start || at > sizeof(long) * 2100)
            return 0;
    }
    return 1 + (int)variable;
}
#else
static int (*inside[3])(void);
static const char *const names[] = {"./zeroed.so", "./initialised.so", "./large.so"};
static void *run(void *unused)
{
    for (int i = 0; i < 3; i++)
        say("%s %d", names[i], inside[i]());
    return NULL;
}
#include <pthread.h>
void test(void)
{
    for (int i = 0; i < 3; i++)
        inside[i] = (int (*)(void))dlsym(dlopen(names[i], RTLD_NOW), "inside");
    pthread_t thread;
    run(NULL);
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
}
#endif
