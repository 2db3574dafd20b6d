//# Area: versions
//# Machine: x86_64
//# Lib: dep.so -Wl,--default-symver
//# Lib: main.so dep.so
//# Expect-output: v
//# Expect-output: v
/* A reference with the version that the linker found, to the object's base version. */
#include "assembly.h"
#ifdef DEP
        .data
        public letter, 1
        .byte 'v'
#else
        line_begins
        movq letter@GOTPCREL(%rip), %rax
        movb (%rax), %cl
        line_ends
#endif
