//# Area: tls descriptors
//# Lib: main.so -mtls-dialect=gnu2
//# Symbols: off the address of errno's function is not of interest here
/* A descriptor that names the C library's thread-local data (h_errno's through its accessor, which
   shares the block). */
#include "case.h"
#include <netdb.h>
static __thread int own = 1;
void test(void) { h_errno = 5; say("%d %d", h_errno, own++); h_errno = 0; }
