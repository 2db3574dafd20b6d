//# Area: relocations
//# Machine: x86_64
//# Lib: dep.so
//# Lib: main.so dep.so
//# Expect-output: *
//# Expect-output: *
/* R_X86_64_SIZE64: the size of another object's symbol (42). */
#include "assembly.h"
#ifdef DEP
        .data
        public block, 42
        .zero 42
#else
        .data
        .balign 8
size:   .quad block@SIZE
        line_begins
        movq size(%rip), %rcx
        line_ends
#endif
