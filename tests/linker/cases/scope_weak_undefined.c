//# Area: scope
//# Lib: main.so
//# Compilers: gcc clang
//# Linkers: bfd lld mold
/* Undefined weak references are null, functions and data. */
#include "case.h"
extern int nobody_data __attribute__((weak));
int nobody(void) __attribute__((weak));
int *volatile pointer = &nobody_data;
int (*volatile function)(void) = nobody;
void test(void) { say("%d %d %d", &nobody_data == NULL, pointer == NULL, function == NULL); }
