//# Area: tls descriptors
//# Machine: x86_64
//# Lib: main.so
//# Needs: avx512f
//# Differs: glibc loses vector registers in this resolver where its bug 31372 is not mended
//# Expect-output: kept
//# Expect-output: kept
/* As tls_descriptor_registers for the 32 registers of 512 bits and the mask registers. */
#include "assembly.h"
        thread_local_value
        test_begins
        subq $40, %rsp
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        movq $(100 + \n), %rax
        vpbroadcastq %rax, %zmm\n
        .endr
        movl $0x5a5a, %eax
        kmovw %eax, %k3
        resolve_value
        kmovw %k3, %eax
        cmpl $0x5a5a, %eax
        jne bad
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        vextracti64x4 $1, %zmm\n, %ymm0
        vextracti128 $1, %ymm0, %xmm0
        vmovq %xmm0, %rax
        .if \n
        cmpq $(100 + \n), %rax
        jne bad
        .endif
        .endr
        kept_or_lost
        vzeroupper
        addq $40, %rsp
        ret
