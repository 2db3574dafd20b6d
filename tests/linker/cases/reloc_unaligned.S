//# Area: relocations
//# Machine: x86_64
//# Lib: main.so
//# Linkers: bfd mold
//# Expect-output: U
//# Expect-output: U
/* A relocated word at an odd address. */
#include "assembly.h"
        .data
        .byte 0
word:   .quad letter
letter: .byte 'U'
        line_begins
        movq word(%rip), %rax
        movb (%rax), %cl
        line_ends
