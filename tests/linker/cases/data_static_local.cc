//# Area: copies
//# Lib: main.so
//# Steps: 3
//# Compilers: gcc clang
/* A function's static object is made once a copy. */
#include "case.h"
struct Counter {
    int value;
    Counter() : value(10) { say("made"); }
    ~Counter() { say("gone at %d", value); }
};
static Counter &counter()
{
    static Counter instance;
    return instance;
}
void test(void) { say("%d", ++counter().value); }
