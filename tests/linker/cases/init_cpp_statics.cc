//# Area: constructors
//# Lib: dep.so
//# Lib: main.so dep.so
//# Compilers: gcc clang
//# Linkers: bfd lld
/* Global objects of C++ across libraries. */
#include "case.h"
struct Object {
    const char *name;
    explicit Object(const char *n) : name(n) { say("begin %s", name); }
    ~Object() { say("end %s", name); }
};
#ifdef DEP
extern Object dep_object;
Object dep_object("dep");
#else
extern Object dep_object;
static Object one("one");
static Object two("two");
void test(void) { say("test with %s", dep_object.name); }
#endif
