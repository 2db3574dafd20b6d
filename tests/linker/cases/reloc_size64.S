//# Area: relocations
//# Lib: dep.so
//# Lib: main.so dep.so
//# Expect-output: *
//# Expect-output: *
/* R_X86_64_SIZE64: the size of another object's symbol (42). */
#ifdef DEP
        .data
        .globl block
        .type block, @object
        .size block, 42
block:  .zero 42
#else
        .data
        .balign 8
size:   .quad block@SIZE
        .text
        .globl test
        .type test, @function
test:
        subq $24, %rsp
        movq size(%rip), %rcx
        movb %cl, (%rsp)           # 42 is '*'
        movb $10, 1(%rsp)
        movq %rsp, %rdi
        movl $2, %esi
        call case_write@PLT
        addq $24, %rsp
        ret
#endif
        .section .note.GNU-stack,"",@progbits
