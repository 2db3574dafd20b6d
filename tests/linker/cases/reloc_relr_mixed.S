//# Area: relr
//# Lib: main.so -Wl,--pack-dyn-relocs=relr
//# Linkers: lld mold
//# Differs: glibc wants a need of GLIBC_ABI_DT_RELR beside DT_RELR, which these linkers do not write; the table means the same without
//# Expect-output: xyz
//# Expect-output: xyz
/* DT_RELR for aligned words, RELA RELATIVE for a word at an odd address. */
        .data
        .balign 8
first:  .quad letters
second: .quad letters + 1
        .byte 0
third:  .quad letters + 2
        .balign 8
letters: .ascii "xyz"
        .text
        .globl test
        .type test, @function
test:
        subq $24, %rsp
        movq first(%rip), %rax
        movb (%rax), %cl
        movb %cl, (%rsp)
        movq second(%rip), %rax
        movb (%rax), %cl
        movb %cl, 1(%rsp)
        movq third(%rip), %rax
        movb (%rax), %cl
        movb %cl, 2(%rsp)
        movb $10, 3(%rsp)
        movq %rsp, %rdi
        movl $4, %esi
        call case_write@PLT
        addq $24, %rsp
        ret
        .section .note.GNU-stack,"",@progbits
