//# Area: tls descriptors
//# Machine: aarch64
//# Lib: main.so
//# Expect-output: kept
//# Expect-output: kept
/* The call of a descriptor's resolver keeps every integer and vector register but x0, x1 and x30, also when it is the
   first in this thread and allocates. */
#include "assembly.h"
        thread_local_value
        test_begins
        stp x29, x30, [sp, #-160]!
        stp x19, x20, [sp, #16]
        stp x21, x22, [sp, #32]
        stp x23, x24, [sp, #48]
        stp x25, x26, [sp, #64]
        stp x27, x28, [sp, #80]
        stp d8, d9, [sp, #96]
        stp d10, d11, [sp, #112]
        stp d12, d13, [sp, #128]
        stp d14, d15, [sp, #144]
        .irp n, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,19,20,21,22,23,24,25,26,27,28
        mov x\n, #(200 + \n)
        .endr
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        mov x0, #(100 + \n)
        dup v\n\().2d, x0
        .endr
        resolve_value
        .irp n, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,19,20,21,22,23,24,25,26,27,28
        cmp x\n, #(200 + \n)
        b.ne bad
        .endr
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        umov x0, v\n\().d[0]
        cmp x0, #(100 + \n)
        b.ne bad
        umov x0, v\n\().d[1]
        cmp x0, #(100 + \n)
        b.ne bad
        .endr
        kept_or_lost
        ldp x19, x20, [sp, #16]
        ldp x21, x22, [sp, #32]
        ldp x23, x24, [sp, #48]
        ldp x25, x26, [sp, #64]
        ldp x27, x28, [sp, #80]
        ldp d8, d9, [sp, #96]
        ldp d10, d11, [sp, #112]
        ldp d12, d13, [sp, #128]
        ldp d14, d15, [sp, #144]
        ldp x29, x30, [sp], #160
        ret
