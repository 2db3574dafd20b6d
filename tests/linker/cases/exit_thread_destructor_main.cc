//# Area: exit
//# Lib: main.so
//# Modes: one interleaved; the objects are those of the thread that ends last
/* thread_local objects of the main thread are destroyed at exit, before static objects. */
#include "case.h"
struct Object {
    const char *name;
    explicit Object(const char *n) : name(n) {}
    ~Object() { say("end %s", name); }
};
static Object whole("static");
static thread_local Object mine("thread");
void test(void) { say("%s %s", whole.name, mine.name); }
