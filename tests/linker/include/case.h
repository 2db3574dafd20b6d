/* Included by every case that is written in C or C++. */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif
/* Writes to the output of the copy that calls. */
void case_write(const char *text, unsigned long length);
/* The driver calls this `Steps` times. */
void test(void);
#ifdef __cplusplus
}
#endif

#define HIDDEN __attribute__((visibility("hidden")))
#define PROTECTED __attribute__((visibility("protected")))
#define NOINLINE __attribute__((noinline))
#define CONSTRUCTOR __attribute__((constructor))
#define DESTRUCTOR __attribute__((destructor))

__attribute__((format(printf, 1, 2), unused)) static void say(const char *format, ...)
{
    char line[512];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line - 1, format, list);
    va_end(list);
    if (length > (int)sizeof line - 2)
        length = sizeof line - 2;
    line[length] = '\n';
    case_write(line, length + 1);
}
