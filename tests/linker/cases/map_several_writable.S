//# Area: mapping
//# Machine: x86_64
//# Lib: main.so -Wl,--section-start=.one=0x800000,--section-start=.two=0xa00000,--section-start=.three=0xc00000
//# Expect-output: abc
//# Expect-output: bcd
/* Four writable segments, with relocated words in each. */
#include "assembly.h"
        .macro part name, letter
        .section .\name,"aw",@progbits
        .balign 8
p_\name: .quad l_\name
l_\name: .byte \letter
        .endm
        part one, 'a'
        part two, 'b'
        part three, 'c'
        line_begins
        .macro take name, at
        movq p_\name(%rip), %rax
        movb (%rax), %cl
        incb (%rax)
        movb %cl, \at(%rsp)
        .endm
        take one, 0
        take two, 1
        take three, 2
        line_ends 3
