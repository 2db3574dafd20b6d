//# Area: relocations
//# Lib: dep.so
//# Lib: main.so dep.so
//# Patch: main.so rela.24.0.type=2
//# Expect-output: Z
//# Expect-output: Z
/* R_X86_64_PC32 in data: a PC64 narrowed by the patch. Objects of one load lie close together. */
#ifdef DEP
        .data
        .globl near_data
        .type near_data, @object
        .size near_data, 8
near_data: .quad 'Z'
#else
        .data
        .balign 8
distance: .quad near_data - .
        .text
        .globl test
        .type test, @function
test:
        subq $24, %rsp
        leaq distance(%rip), %rax
        movslq (%rax), %rcx
        addq %rcx, %rax
        movq (%rax), %rcx
        movb %cl, (%rsp)
        movb $10, 1(%rsp)
        movq %rsp, %rdi
        movl $2, %esi
        call case_write@PLT
        addq $24, %rsp
        ret
#endif
        .section .note.GNU-stack,"",@progbits
