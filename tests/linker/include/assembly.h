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

/* A variable whose TLS descriptor has to allocate at the first call in a thread. */
        .macro thread_local_value
        .section .tdata,"awT",@progbits
        public value, 4
        .long 5
        .section .tbss,"awT",@nobits
        .zero 70000
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
