//# Area: tls system
//# Lib: main.so
/* errno is the process's, one a thread. */
#include "case.h"
#include <errno.h>
#include <unistd.h>
void test(void)
{
    errno = 0;
    close(-1);
    say("%s", strerror(errno));
}
