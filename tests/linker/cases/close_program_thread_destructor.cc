//# Area: unloading
//# Lib: dep.so
//# Lib: main.so
//# Steps: 1
//# Modes: program; other domains keep what they have loaded
/* A thread_local object keeps its library until the thread has destroyed it. */
#include "case.h"
#include <thread>
#ifdef DEP
struct Object { int value = 3; ~Object() { say("object %d", value); } };
static thread_local Object object;
extern "C" void use(void) { object.value++; }
DESTRUCTOR static void end(void) { say("library"); }
#else
void test(void)
{
    std::thread([] {
        void *dep = dlopen("./dep.so", RTLD_NOW);
        ((void (*)(void))dlsym(dep, "use"))();
        dlclose(dep);
        say("closed");
    }).join();
    say("joined");
}
#endif
