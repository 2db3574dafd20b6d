//# Area: exit
//# Lib: dep.so
//# Lib: main.so dep.so
//# Compilers: gcc clang
//# Close: __cxa_finalize must find each library's objects
/* Static objects are destroyed at close, by library. */
#include "case.h"
struct Object {
    const char *name;
    explicit Object(const char *n) : name(n) {}
    ~Object() { say("end %s", name); }
};
#ifdef DEP
static Object object("dep");
extern "C" const char *dep(void) { static Object local("dep local"); return object.name; }
#else
extern "C" const char *dep(void);
static Object object("main");
void test(void) { static Object local("main local"); say("%s %s", dep(), object.name); }
#endif
