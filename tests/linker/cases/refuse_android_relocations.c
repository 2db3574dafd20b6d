//# Area: refusals
//# Lib: main.so -Wl,--pack-dyn-relocs=android
//# Linkers: lld
//# Expect-error: its relocations are packed for Android's linker
//# Differs: glibc passes over the tag and relocates nothing, so that its own start code crashes
/* DT_ANDROID_RELA: nothing must run with its words unrelocated. */
#include "case.h"
static int value = 1;
int *pointer = &value;
void test(void) { say("%d", *pointer); }
