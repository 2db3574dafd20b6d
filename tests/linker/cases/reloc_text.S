//# Area: relocations
//# Machine: x86_64
//# Lib: main.so -Wl,-z,notext
//# Patch: main.so rela.24.0.type=2
//# Sharing: off (a page of code has relocated words)
/* DT_TEXTREL: words in code, one of the object's own, one of a symbol, one of four bytes (a PC64 narrowed by the
   patch). */
#include "assembly.h"
        .text
        .globl test
        .type test, @function
test:   push %rbx
        mov of_own(%rip), %rax
        lea own(%rip), %rcx
        cmp %rcx, %rax
        jne fail
        mov of_symbol(%rip), %rax
        mov public@GOTPCREL(%rip), %rcx
        cmp %rcx, %rax
        jne fail
        movslq distance(%rip), %rax
        lea distance(%rip), %rcx
        add %rcx, %rax
        mov public@GOTPCREL(%rip), %rcx
        cmp %rcx, %rax
        jne fail
        lea ok(%rip), %rdi
        mov $3, %esi
        call case_write@PLT
        pop %rbx
        ret
fail:   ud2
        .balign 8
of_own: .quad own
of_symbol:
        .quad public
distance:
        .quad public - .
        .section .rodata
ok:     .ascii "ok\n"
        .data
own:    .quad 1
        public public, 8
        .quad 2
