//# Area: relocations
//# Machine: x86_64
//# Lib: dep.so
//# Lib: main.so dep.so
//# Patch: main.so rela.24.0.type=2
//# Expect-output: Z
//# Expect-output: Z
/* R_X86_64_PC32 in data: a PC64 narrowed by the patch. Objects of one load lie close together. */
#include "assembly.h"
#ifdef DEP
        .data
        public near_data, 8
        .quad 'Z'
#else
        .data
        .balign 8
distance: .quad near_data - .
        line_begins
        leaq distance(%rip), %rax
        movslq (%rax), %rcx
        addq %rcx, %rax
        movq (%rax), %rcx
        line_ends
#endif
