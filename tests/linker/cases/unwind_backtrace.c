//# Area: unwinding
//# Lib: main.so -fno-omit-frame-pointer
/* backtrace(3) walks the library's frames. */
#include "case.h"
#include <execinfo.h>
NOINLINE int inner(void **frames) { int n = backtrace(frames, 32); __asm__ volatile(""); return n; }
NOINLINE int outer(void **frames) { int n = inner(frames); __asm__ volatile(""); return n; }
void test(void)
{
    void *frames[32];
    int n = outer(frames), mine = 0;
    for (int i = 0; i < n; i++) {
        Dl_info info;
        mine += dladdr(frames[i], &info) && strstr(info.dli_fname, "main.so");
    }
    say("%d", mine);
}
