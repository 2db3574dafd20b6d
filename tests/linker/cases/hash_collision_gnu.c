//# Area: hash tables
//# Lib: dep.so -Wl,--hash-style=gnu
//# Lib: main.so dep.so
//# Linkers: bfd lld mold
/* "bA" and "aa"-like pairs have one hash in DT_GNU_HASH (33 * 'b' + 'A' == 33 * 'a' + 'b'): the
   names decide. */
#include "case.h"
#ifdef DEP
int collide_bA = 1, collide_ab = 2;
int other_bAbA = 3, other_abab = 4, other_bAab = 5;
#else
extern int collide_bA, collide_ab, other_bAbA, other_abab, other_bAab;
void test(void)
{
    say("%d %d %d %d %d", collide_bA, collide_ab, other_bAbA, other_abab, other_bAab);
    say("%s", dlsym(RTLD_DEFAULT, "other_abbA") ? "found" : "absent");
}
#endif
