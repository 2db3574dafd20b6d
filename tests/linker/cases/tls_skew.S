//# Area: tls alignment
//# Lib: main.so
//# Patch: main.so phdr.PT_TLS.0.p_align=64
//# Expect-output: ok
//# Expect-output: ok
/* PT_TLS whose p_vaddr is not a multiple of its p_align: the block's address is congruent to it. */
        .section .tdata,"awT",@progbits
        .balign 8
        .globl word
        .type word, @object
        .size word, 8
word:   .quad 0x1122
        .text
        .globl test
        .type test, @function
test:
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
        .section .note.GNU-stack,"",@progbits
