/* Included by the libraries of random programs (`cargo xtask linker --random`). It declares by hand
   what it uses of the C library: the headers would take most of the time of a build. */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>

void case_write(const char *text, unsigned long length);
int snprintf(char *, unsigned long, const char *, ...);
char *strstr(const char *, const char *);
char *strrchr(const char *, int);
char *getenv(const char *);
int atexit(void (*)(void));
void _exit(int);
int pthread_create(unsigned long *, const void *, void *(*)(void *), void *);
int pthread_join(unsigned long, void **);

#define SAY(...)                                                                                   \
    do {                                                                                           \
        char line[256];                                                                            \
        case_write(line, snprintf(line, sizeof line, __VA_ARGS__));                                \
    } while (0)

__attribute__((unused)) static const char *base(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : 0;
    return slash ? slash + 1 : path ? path : "(null)";
}

/* What a reference sees: a value, and whose it is. */
__attribute__((unused)) static void see(const char *what, int value, const void *address)
{
    Dl_info info = {0, 0, 0, 0};
    /* Unique symbols, all that begin with u, have no names for glibc in a library with DT_HASH only. */
    if (address && dladdr(address, &info))
        SAY("%s = %d in %s (%s)\n", what, value, base(info.dli_fname),
            info.dli_sname && *info.dli_sname != 'u' ? info.dli_sname : "no name");
    else
        SAY("%s = %d\n", what, value);
}

/* What an error names, of a text that two loaders word differently. */
__attribute__((unused)) static void tell(const char *what)
{
    char *text = dlerror();
    char *start, object[64] = "", symbol[64] = "";
    int at = 0;
    if (!text) {
        SAY("%s: no error\n", what);
        return;
    }
    if ((start = strstr(text, "undefined symbol: ")))
        start += 18;
    else if ((start = strstr(text, "symbol ")) && strstr(text, "link time reference"))
        start += 7;
    if (start)
        for (; *start && *start != ',' && *start != ' ' && at < 63; start++)
            symbol[at++] = *start;
    at = 0;
    for (start = text; *start && *start != ':' && at < 63; start++)
        object[at++] = *start, at = *start == '/' ? 0 : at;
    object[at] = 0;
    if (*symbol)
        SAY("%s: %s misses %s\n", what, object, symbol);
    else
        SAY("%s: %s%s\n", what, object,
            strstr(text, "cannot open shared object file") ? " is absent" : " fails otherwise");
    if (getenv("CASE_ERRORS"))
        SAY("%s\n", text);
}

/* What follows is answered differently by design: glibc's run ends here, and nothing is compared. */
__attribute__((unused)) static void apart(void) { _exit(87); }

/* RTLD_NODELETE where the loader that is compared with does not unload. */
__attribute__((unused)) static int kept(void) { return getenv("CASE_KEEP") ? RTLD_NODELETE : 0; }
