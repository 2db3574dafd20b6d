//# Area: mapping
//# Lib: main.so -Wl,-Ttext-segment=0x500000
//# Compilers: gcc
//# Linkers: bfd
//# Symbols: off dladdr counts from the lowest address that is mapped, which differs by what lies below
/* Addresses in the file that do not begin at zero, as prelinked objects have. */
#include "case.h"
static int value = 2;
static int *const pointer = &value;
CONSTRUCTOR static void early(void) { value = 20; }
void test(void) { say("%d", ++*pointer); }
