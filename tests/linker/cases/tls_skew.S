//# Area: tls alignment
//# Machine: x86_64
//# Lib: main.so
//# Patch: main.so phdr.PT_TLS.0.p_align=64
//# Expect-output: ok
//# Expect-output: ok
/* PT_TLS whose p_vaddr is not a multiple of its p_align: the block's address is congruent to it. */
#include "assembly.h"
        .section .tdata,"awT",@progbits
        .balign 8
        public word, 8
        .quad 0x1122
        test_begins
        subq $8, %rsp
        data16 leaq word@tlsgd(%rip), %rdi
        .value 0x6666
        rex64 call __tls_get_addr@PLT
        cmpq $0x1122, (%rax)
        jne bad
        leaq template(%rip), %rcx
        subq %rcx, %rax
        jmp good
bad:    leaq wrong(%rip), %rdi
        jmp out
good:   leaq right(%rip), %rdi
out:    movl $3, %esi
        call case_write@PLT
        addq $8, %rsp
        ret
        .section .rodata
template:
right:  .ascii "ok\n"
wrong:  .ascii "no\n"
