//# Area: relocations
//# Lib: dep.so
//# Lib: main.so dep.so
//# Patch: main.so rela.1.0.type=10
//# Expect-output: A
//# Expect-output: A
/* R_X86_64_32: only an absolute symbol has a value that fits. */
#ifdef DEP
        .globl letter
        .set letter, 0x41
#else
        .data
        .balign 8
word:   .quad letter
        .text
        .globl test
        .type test, @function
test:
        subq $24, %rsp
        movl word(%rip), %ecx
        movb %cl, (%rsp)
        movb $10, 1(%rsp)
        movq %rsp, %rdi
        movl $2, %esi
        call case_write@PLT
        addq $24, %rsp
        ret
#endif
        .section .note.GNU-stack,"",@progbits
