//# Area: tls descriptors
//# Machine: x86_64
//# Lib: main.so
//# Differs: glibc loses vector registers in this resolver where its bug 31372 is not mended
//# Expect-output: kept
//# Expect-output: kept
/* The call of a descriptor's resolver keeps every integer and SSE register, also when it is the
   first in this thread and allocates. */
#include "assembly.h"
        thread_local_value
        test_begins
        pushq %rbx
        pushq %rbp
        pushq %r12
        pushq %r13
        pushq %r14
        pushq %r15
        subq $8, %rsp
        movq $1, %rbx
        movq $2, %rcx
        movq $3, %rdx
        movq $4, %rsi
        movq $5, %rdi
        movq $6, %rbp
        movq $7, %r8
        movq $8, %r9
        movq $9, %r10
        movq $10, %r11
        movq $11, %r12
        movq $12, %r13
        movq $13, %r14
        movq $14, %r15
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        movq $(100 + \n), %rax
        movq %rax, %xmm\n
        punpcklqdq %xmm\n, %xmm\n
        .endr
        resolve_value
        .macro check register, expected
        cmpq $\expected, %\register
        jne bad
        .endm
        check rbx, 1
        check rcx, 2
        check rdx, 3
        check rsi, 4
        check rdi, 5
        check rbp, 6
        check r8, 7
        check r9, 8
        check r10, 9
        check r11, 10
        check r12, 11
        check r13, 12
        check r14, 13
        check r15, 14
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        movq %xmm\n, %rax
        cmpq $(100 + \n), %rax
        jne bad
        psrldq $8, %xmm\n
        movq %xmm\n, %rax
        cmpq $(100 + \n), %rax
        jne bad
        .endr
        kept_or_lost
        addq $8, %rsp
        popq %r15
        popq %r14
        popq %r13
        popq %r12
        popq %rbp
        popq %rbx
        ret
