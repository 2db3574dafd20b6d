//# Area: mapping
//# Machine: x86_64
//# Lib: main.so -Wl,--section-start=.far=0x4000000
//# Expect-output: G
//# Expect-output: H
/* A second writable segment 64 MiB behind the others. */
#include "assembly.h"
        .section .far,"aw",@progbits
        public letter, 1
        .byte 'G'
        .data
        .balign 8
pointer: .quad letter
        line_begins
        movq pointer(%rip), %rax
        movb (%rax), %cl
        incb (%rax)
        line_ends
