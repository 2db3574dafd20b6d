//# Area: scope
//# Lib: first.so
//# Lib: second.so
//# Lib: main.so
//# Compilers: gcc
/* STB_GNU_UNIQUE: an inline function's static is one in all libraries of a copy, opened locally
   and apart from each other. */
#include "case.h"
struct Registry {
    static Registry &get() { static Registry one; return one; }
    int count = 0;
};
template <typename T> struct Holder { static int value; };
template <typename T> int Holder<T>::value = 5;
#if defined FIRST
extern "C" int bump(void) { return ++Registry::get().count * 100 + ++Holder<int>::value; }
#elif defined SECOND
extern "C" int bump(void) { return ++Registry::get().count * 100 + ++Holder<int>::value; }
#else
void test(void)
{
    int (*one)(void) = (int (*)(void))dlsym(dlopen("./first.so", RTLD_NOW), "bump");
    int (*two)(void) = (int (*)(void))dlsym(dlopen("./second.so", RTLD_NOW), "bump");
    int a = one(), b = two();
    say("%d %d", a, b);
}
#endif
