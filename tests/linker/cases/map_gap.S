//# Area: mapping
//# Lib: main.so -Wl,--section-start=.far=0x4000000
//# Expect-output: G
//# Expect-output: H
/* A second writable segment 64 MiB behind the others. */
        .section .far,"aw",@progbits
        .globl letter
        .type letter, @object
        .size letter, 1
letter: .byte 'G'
        .data
        .balign 8
pointer: .quad letter
        .text
        .globl test
        .type test, @function
test:
        subq $24, %rsp
        movq pointer(%rip), %rax
        movb (%rax), %cl
        incb (%rax)
        movb %cl, (%rsp)
        movb $10, 1(%rsp)
        movq %rsp, %rdi
        movl $2, %esi
        call case_write@PLT
        addq $24, %rsp
        ret
        .section .note.GNU-stack,"",@progbits
