//# Area: versions
//# Lib: dep.so -Wl,--default-symver
//# Lib: main.so dep.so
//# Expect-output: v
//# Expect-output: v
/* A reference with the version that the linker found, to the object's base version. */
#ifdef DEP
        .data
        .globl letter
        .type letter, @object
        .size letter, 1
letter: .byte 'v'
#else
        .text
        .globl test
        .type test, @function
test:
        subq $24, %rsp
        movq letter@GOTPCREL(%rip), %rax
        movb (%rax), %cl
        movb %cl, (%rsp)
        movb $10, 1(%rsp)
        movq %rsp, %rdi
        movl $2, %esi
        call case_write@PLT
        addq $24, %rsp
        ret
#endif
        .section .note.GNU-stack,"",@progbits
