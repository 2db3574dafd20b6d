/* Included by every case that is written in assembly. */
        .section .note.GNU-stack,"",@progbits

/* Begins a variable that other objects see. */
        .macro public name, size
        .globl \name
        .type \name, @object
        .size \name, \size
\name:
        .endm

/* Begins `test`. */
        .macro test_begins
        .text
        .globl test
        .type test, @function
test:
        .endm

/* A variable whose TLS descriptor has to allocate at the first call in a thread. */
        .macro thread_local_value
        .section .tdata,"awT",@progbits
        public value, 4
        .long 5
        .section .tbss,"awT",@nobits
        .zero 70000
        .endm

#ifdef __x86_64__

/* Begins `test`, with room for a line on the stack. */
        .macro line_begins
        test_begins
        subq $24, %rsp
        .endm

/* Ends it: writes so many letters, which are at %rsp, as a line. The first may still be in %cl. */
        .macro line_ends letters=1
        .if \letters == 1
        movb %cl, (%rsp)
        .endif
        movb $10, \letters(%rsp)
        movq %rsp, %rdi
        movl $(\letters + 1), %esi
        call case_write@PLT
        addq $24, %rsp
        ret
        .endm

/* Calls its resolver. */
        .macro resolve_value
        leaq value@tlsdesc(%rip), %rax
        call *value@tlscall(%rax)
        cmpl $5, %fs:(%rax)
        jne bad
        .endm

/* Writes `kept` or, from the label `bad`, `lost`. */
        .macro kept_or_lost
        leaq kept(%rip), %rdi
        jmp out
bad:    leaq lost(%rip), %rdi
out:    movl $5, %esi
        call case_write@PLT
        .section .rodata
kept:   .ascii "kept\n"
lost:   .ascii "lost\n"
        .text
        .endm

#else

/* Calls its resolver. It changes x0, x1 and x30 alone. */
        .macro resolve_value
        adrp x0, :tlsdesc:value
        ldr x1, [x0, #:tlsdesc_lo12:value]
        add x0, x0, :tlsdesc_lo12:value
        .tlsdesccall value
        blr x1
        mrs x1, tpidr_el0
        ldr w1, [x1, x0]
        cmp w1, #5
        b.ne bad
        .endm

/* Writes `kept` or, from the label `bad`, `lost`. */
        .macro kept_or_lost
        adrp x0, kept
        add x0, x0, :lo12:kept
        b out
bad:    adrp x0, lost
        add x0, x0, :lo12:lost
out:    mov x1, #5
        bl case_write
        .section .rodata
kept:   .ascii "kept\n"
lost:   .ascii "lost\n"
        .text
        .endm

#endif
