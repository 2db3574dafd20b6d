//# Area: fork
//# Lib: main.so
//# Modes: one program interleaved; a fork runs the handlers of all copies, whatever their threads do
/* pthread_atfork handlers of a copy are that copy's. */
#include "case.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static int prepared, resumed, begun;
static void before(void) { prepared++; }
static void parent(void) { resumed++; }
static void child(void) { begun++; }
void test(void)
{
    static int registered;
    if (!registered++)
        pthread_atfork(before, parent, child);
    prepared = resumed = begun = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(prepared * 100 + resumed * 10 + begun);
    int status = -1;
    waitpid(pid, &status, 0);
    say("%d %d %d %d", prepared, resumed, begun, WEXITSTATUS(status));
}
