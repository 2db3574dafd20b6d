//# Area: relr
//# Machine: x86_64
//# Lib: main.so -Wl,--pack-dyn-relocs=relr
//# Linkers: lld mold
//# Differs: glibc wants a need of GLIBC_ABI_DT_RELR beside DT_RELR, which these linkers do not write; the table means the same without
//# Expect-output: xyz
//# Expect-output: xyz
/* DT_RELR for aligned words, RELA RELATIVE for a word at an odd address. */
#include "assembly.h"
        .data
        .balign 8
first:  .quad letters
second: .quad letters + 1
        .byte 0
third:  .quad letters + 2
        .balign 8
letters: .ascii "xyz"
        line_begins
        movq first(%rip), %rax
        movb (%rax), %cl
        movb %cl, (%rsp)
        movq second(%rip), %rax
        movb (%rax), %cl
        movb %cl, 1(%rsp)
        movq third(%rip), %rax
        movb (%rax), %cl
        movb %cl, 2(%rsp)
        line_ends 3
