//# Area: relocations
//# Machine: x86_64
//# Lib: dep.so
//# Lib: main.so dep.so
//# Patch: main.so rela.1.0.type=10
//# Expect-output: A
//# Expect-output: A
/* R_X86_64_32: only an absolute symbol has a value that fits. */
#include "assembly.h"
#ifdef DEP
        .globl letter
        .set letter, 0x41
#else
        .data
        .balign 8
word:   .quad letter
        line_begins
        movl word(%rip), %ecx
        line_ends
#endif
