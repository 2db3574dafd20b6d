/* Looks for the arguments of the process and takes them as setproctitle does (src/spt_setup.c and src/spt_status.c of 1.3.8). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <wchar.h>

void Py_GetArgcArgv(int *count, wchar_t ***words);

static char *place;
static size_t size;

/* Whether they are there. */
int take(void)
{
    int count, strings = 0;
    wchar_t **words;
    char first[4096];
    Py_GetArgcArgv(&count, &words);
    if (count > 0) {
        wcstombs(first, words[0], sizeof first);
    } else {
        int file = open("/proc/self/cmdline", O_RDONLY);
        ssize_t bytes = read(file, first, sizeof first);
        close(file);
        while (bytes > 0)
            count += !first[--bytes];
    }
    size_t length = strlen(first);
    if (!environ[0])
        return 0;
    char *start = environ[0] - 1, *end = start;
    for (int word = count - 1; word >= 1; word--) {
        if (*start)
            return 0;
        for (start--; *start; start--)
            ;
    }
    start -= length;
    if (strcmp(start, first))
        return 0;
    for (; environ[strings]; strings++)
        if (environ[strings] == end + 1)
            end = environ[strings] + strlen(environ[strings]);
    char **moved = calloc(strings + 1, sizeof *moved);
    for (int string = 0; string < strings; string++)
        moved[string] = strdup(environ[string]);
    environ = moved;
    place = start;
    size = end - start;
    return 1;
}

void set(const char *title)
{
    memset(place, 0, size);
    memcpy(place, title, strnlen(title, size - 1));
    prctl(PR_SET_NAME, place);
}

void name_thread(const char *name) { prctl(PR_SET_NAME, name); }

const char *get(void) { return place; }
