//# Area: failed loads
//# Lib: good.so
//# Lib: broken.so good.so
//# Lib: main.so
/* The dependencies of a load that fails are not left behind either; they load later. */
#include "case.h"
#if defined GOOD
int good = 1;
CONSTRUCTOR static void begin(void) { say("good"); }
#elif defined BROKEN
extern int nobody, good;
int use(void) { return nobody + good; }
#else
static int done;
void test(void)
{
    if (done++)
        return;
    say("%d", dlopen("./broken.so", RTLD_NOW) == NULL);
    say("%d", dlopen("./good.so", RTLD_NOW | RTLD_NOLOAD) == NULL);
    say("%d", dlopen("./good.so", RTLD_NOW) != NULL);
}
#endif
