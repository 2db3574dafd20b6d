//# Area: fork
//# Lib: late.so
//# Lib: main.so
/* The child has the copy's state as it was, changes its own, and may load. */
#include "case.h"
#include <sys/wait.h>
#include <unistd.h>
#ifdef LATE
__thread int value = 3;
int late(void) { return value++; }
#else
static int n;
static __thread int t = 5;
void test(void)
{
    n++;
    t++;
    pid_t child = fork();
    if (child == 0) {
        n += 10;
        t += 10;
        int (*late)(void) = (int (*)(void))dlsym(dlopen("./late.so", RTLD_NOW), "late");
        _exit(n + t + late());
    }
    int status = -1;
    waitpid(child, &status, 0);
    say("%d %d %d", WEXITSTATUS(status), n, t);
}
#endif
