/* The emulator has a thread of its own. Programs that list their threads do not see it by this readdir64(3). */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Its name, by which the emulator makes it (util/rcu.c, rcu_init_complete). */
static const char NAME[] = "call_rcu\n";

/* In /proc/self/task, threads are folders with numbers for names. */
static int is_hidden(DIR *folder, const char *name) {
    char path[300], found[16] = "";
    if (name[strspn(name, "0123456789")]) return 0;
    snprintf(path, sizeof path, "%s/comm", name);
    int file = openat(dirfd(folder), path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, found, sizeof found - 1);
    close(file);
    return length > 0 && !strcmp(found, NAME);
}

struct dirent64 *readdir64(DIR *folder) {
    struct dirent64 *(*next)(DIR *) = (struct dirent64 * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir64");
    struct dirent64 *entry;
    do entry = next(folder);
    while (entry && is_hidden(folder, entry->d_name));
    return entry;
}
