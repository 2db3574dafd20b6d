//# Area: unwinding
//# Lib: dep.so
//# Lib: main.so dep.so
//# Compilers: gcc clang
/* dynamic_cast and typeid across libraries of a copy. */
#include "case.h"
#include <typeinfo>
struct Base { virtual ~Base() {} };
struct One : Base { int value = 1; };
struct Two : Base {};
#ifdef DEP
extern "C" Base *make(int which) { return which ? (Base *)new Two : (Base *)new One; }
#else
extern "C" Base *make(int which);
void test(void)
{
    Base *one = make(0), *two = make(1);
    say("%d %d %d", dynamic_cast<One *>(one)->value, dynamic_cast<One *>(two) == nullptr,
        typeid(*two) == typeid(Two));
    delete one;
    delete two;
}
#endif
