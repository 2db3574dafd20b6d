//# Area: dl functions
//# Lib: common.so
//# Lib: one.so
//# Lib: two.so
//# Lib: first.so common.so one.so
//# Lib: second.so common.so two.so
//# Lib: main.so
//# Steps: 1
//# Modes: program; other domains keep what they have loaded
/* When what was opened is closed, its scope ends also for what stays: RTLD_DEFAULT of that finds what the
   scopes of other loads have (glibc, elf/dl-close.c, _dl_close_worker). */
#include "case.h"
#if defined COMMON
const char *ask(void)
{
    const char *(*which)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "which");
    return which ? which() : "nobody";
}
#elif defined ONE
const char *which(void) { return "one"; }
#elif defined TWO
const char *which(void) { return "two"; }
#elif defined FIRST || defined SECOND
int nothing;
#else
void test(void)
{
    void *first = dlopen("./first.so", RTLD_NOW);
    void *second = dlopen("./second.so", RTLD_NOW);
    const char *(*ask)(void) = (const char *(*)(void))dlsym(second, "ask");
    say("%d", dlclose(first));
    say("%s", ask());
    say("%d", dlopen("./one.so", RTLD_NOW | RTLD_NOLOAD) == NULL);
}
#endif
