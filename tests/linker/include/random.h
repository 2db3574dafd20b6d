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
int sem_init(void *, int, unsigned);
int sem_wait(void *);
int sem_post(void *);
int fork(void);
char *realpath(const char *, char *);
int waitpid(int, int *, int);

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

/* Prints what a reference sees: a value and its owner. */
__attribute__((unused)) static void see(const char *what, int value, const void *address)
{
    Dl_info info = {0, 0, 0, 0};
    const unsigned long *entry = 0;
    /* Unique symbols, all that begin with u, have no names for glibc in a library with DT_HASH only. */
    if (address && dladdr1(address, &info, (void **)&entry, RTLD_DL_SYMENT))
        SAY("%s = %d in %s (%s, %d)\n", what, value, base(info.dli_fname),
            info.dli_sname && *info.dli_sname != 'u' ? info.dli_sname : "no name",
            entry && info.dli_sname && *info.dli_sname != 'u' ? (int)entry[2] : -1);
    else
        SAY("%s = %d\n", what, value);
}

/* Prints the names in an error, which two loaders word differently. */
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

/* From here on the loaders differ by design: glibc's run ends, and nothing is compared. */
__attribute__((unused)) static void apart(void) { _exit(87); }

/* RTLD_NODELETE where the loader that is compared with does not unload. */
__attribute__((unused)) static int kept(void) { return getenv("CASE_KEEP") ? RTLD_NODELETE : 0; }

/* The public heads of what <link.h> declares. */
struct link_map {
    unsigned long bias;
    char *name;
    void *dynamic;
    struct link_map *next, *previous;
};
struct phdr_info {
    unsigned long bias;
    const char *name;
    const void *headers;
    unsigned short count;
    unsigned long long adds, subs;
    unsigned long module;
    void *data;
};
int dl_iterate_phdr(int (*)(struct phdr_info *, unsigned long, void *), void *);

/* The loaded libraries of a random program, in order. */
struct list {
    char names[128];
    int length;
    unsigned long long objects, balance;
};

__attribute__((unused)) static void add_name(struct list *list, const char *path)
{
    const char *name = base(path);
    if ((*name == 'l' && name[1] >= '0' && name[1] <= '9') || (*name == 'm' && strstr(name, "main.so")))
        list->length +=
            snprintf(list->names + list->length, 128 - list->length, " %s", name);
}

__attribute__((unused)) static int add_object(struct phdr_info *info, unsigned long size, void *data)
{
    struct list *list = data;
    add_name(list, info->name);
    list->objects++;
    list->balance = info->adds - info->subs;
    return 0;
}

/* Beside the program other copies are listed too. */
__attribute__((unused)) static void list(void)
{
    struct list list = {"", 0, 0, 0};
    if (getenv("CASE_KEEP"))
        return;
    dl_iterate_phdr(add_object, &list);
    SAY("loaded:%s, %s\n", list.names,
        list.objects == list.balance ? "as added less removed" : "another number");
}

__attribute__((unused)) static void map(void *handle)
{
    struct link_map *map = 0;
    struct list list = {"", 0, 0, 0};
    char origin[4096] = "", real[4096];
    unsigned long module = 0;
    const void *headers = 0;
    int count;
    if (handle == dlopen(0, RTLD_LAZY))
        return;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) || dlinfo(handle, RTLD_DI_ORIGIN, origin) ||
        dlinfo(handle, RTLD_DI_TLS_MODID, &module))
        tell("dlinfo");
    count = dlinfo(handle, 11 /* RTLD_DI_PHDR */, &headers);
    SAY("map of %s in %s, %d headers, TLS: %d\n", base(map->name),
        realpath(origin, real) ? base(real) : "nowhere", count, module != 0);
    if (!getenv("CASE_KEEP")) {
        for (; map; map = map->next)
            add_name(&list, map->name);
        SAY("then%s\n", list.names);
    }
}

__attribute__((unused)) static void on_new_thread(void *(*act)(void *))
{
    unsigned long id;
    if (!pthread_create(&id, 0, act, 0))
        pthread_join(id, 0);
}

/* A thread that was there before the first operation. */
static long go[4], done[4];
static void *(*work)(void *);
static unsigned long worker_id;

__attribute__((unused)) static void *worker(void *none)
{
    for (;;) {
        sem_wait(go);
        if (!work)
            return 0;
        work(0);
        sem_post(done);
    }
}

__attribute__((unused)) static void start_worker(void)
{
    sem_init(go, 0, 0);
    sem_init(done, 0, 0);
    pthread_create(&worker_id, 0, worker, 0);
}

__attribute__((unused)) static void on_worker(void *(*act)(void *))
{
    work = act;
    sem_post(go);
    sem_wait(done);
}

__attribute__((unused)) static void end_worker(void)
{
    work = 0;
    sem_post(go);
    pthread_join(worker_id, 0);
}
