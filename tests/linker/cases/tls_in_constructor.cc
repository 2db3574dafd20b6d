//# Area: tls images
//# Lib: main.so
/* Constructors see initialised thread-local data. */
#include "case.h"
static thread_local int value = 12;
static int seen;
static struct Early { Early() { seen = value++; } } early;
void test(void) { say("%d %d", seen, value++); }
