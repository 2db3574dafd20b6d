//# Area: relocations
//# Lib: main.so
//# Linkers: bfd mold
//# Expect-output: U
//# Expect-output: U
/* A relocated word at an odd address. */
        .data
        .byte 0
word:   .quad letter
letter: .byte 'U'
        .text
        .globl test
        .type test, @function
test:
        subq $24, %rsp
        movq word(%rip), %rax
        movb (%rax), %cl
        movb %cl, (%rsp)
        movb $10, 1(%rsp)
        movq %rsp, %rdi
        movl $2, %esi
        call case_write@PLT
        addq $24, %rsp
        ret
        .section .note.GNU-stack,"",@progbits
