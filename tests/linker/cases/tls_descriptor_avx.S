//# Area: tls descriptors
//# Machine: x86_64
//# Lib: main.so
//# Needs: avx
//# Differs: glibc loses vector registers in this resolver where its bug 31372 is not mended
//# Expect-output: kept
//# Expect-output: kept
/* As tls_descriptor_registers for the upper halves of the 256-bit registers. */
#include "assembly.h"
        thread_local_value
        test_begins
        subq $40, %rsp
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        movq $(100 + \n), %rax
        movq %rax, %xmm\n
        vpunpcklqdq %xmm\n, %xmm\n, %xmm\n
        vinsertf128 $1, %xmm\n, %ymm\n, %ymm\n
        .endr
        resolve_value
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vextractf128 $1, %ymm\n, %xmm\n
        movq %xmm\n, %rax
        cmpq $(100 + \n), %rax
        jne bad
        .endr
        kept_or_lost
        vzeroupper
        addq $40, %rsp
        ret
