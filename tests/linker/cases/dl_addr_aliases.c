//# Area: dl functions
//# Lib: main.so
/* Of several symbols at one place dladdr names the first of the table; one without a size holds its own
   address only (glibc, DL_ADDR_SYM_MATCH). Random seed 40. */
#include "case.h"
int zz_one[2] = {1, 2};
extern int bb_two[2] __attribute__((alias("zz_one")));
extern int mm_three[2] __attribute__((alias("zz_one")));
__asm__(".pushsection .data\n.globl sizeless\n.balign 8\nsizeless: .quad 1, 2\n.popsection");
extern long sizeless[2];
static void name(const void *address)
{
    Dl_info info = {0};
    say("%d %s", dladdr(address, &info), info.dli_sname ? info.dli_sname : "no name");
}
void test(void)
{
    name(zz_one);
    name(&zz_one[1]);
    name(sizeless);
    name(&sizeless[1]);
}
