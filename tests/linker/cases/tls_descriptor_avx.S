//# Area: tls descriptors
//# Lib: main.so
//# Needs: avx
//# Differs: glibc loses vector registers in this resolver where its bug 31372 is not mended
//# Expect-output: kept
//# Expect-output: kept
/* As tls_descriptor_registers for the upper halves of the 256-bit registers. */
        .section .tdata,"awT",@progbits
        .globl value
        .type value, @object
        .size value, 4
value:  .long 5
        .section .tbss,"awT",@nobits
        .zero 70000
        .text
        .globl test
        .type test, @function
test:
        subq $40, %rsp
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        movq $(100 + \n), %rax
        movq %rax, %xmm\n
        vpunpcklqdq %xmm\n, %xmm\n, %xmm\n
        vinsertf128 $1, %xmm\n, %ymm\n, %ymm\n
        .endr
        leaq value@tlsdesc(%rip), %rax
        call *value@tlscall(%rax)
        cmpl $5, %fs:(%rax)
        jne bad
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vextractf128 $1, %ymm\n, %xmm\n
        movq %xmm\n, %rax
        cmpq $(100 + \n), %rax
        jne bad
        .endr
        leaq kept(%rip), %rdi
        jmp out
bad:    leaq lost(%rip), %rdi
out:    vzeroupper
        movl $5, %esi
        call case_write@PLT
        addq $40, %rsp
        ret
        .section .rodata
kept:   .ascii "kept\n"
lost:   .ascii "lost\n"
        .section .note.GNU-stack,"",@progbits
