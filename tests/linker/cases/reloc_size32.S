//# Area: relocations
//# Machine: x86_64
//# Lib: dep.so
//# Lib: main.so dep.so
//# Expect-output: +
//# Expect-output: +
/* R_X86_64_SIZE32 with an addend: 42 + 1. */
#include "assembly.h"
#ifdef DEP
        .data
        public block, 42
        .zero 42
#else
        .data
        .balign 8
size:   .long block@SIZE + 1
        .long 0
        line_begins
        movq size(%rip), %rcx
        line_ends
#endif
