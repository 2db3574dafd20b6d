//# Area: constructors
//# Machine: x86_64
//# Lib: main.so
//# Differs: glibc calls whatever the array holds, and crashes on an entry that is not a function
//# Expect-output: first
//# Expect-output: second
//# Expect-output: test
//# Expect-output: test
/* Entries 0 and -1 of DT_INIT_ARRAY and DT_FINI_ARRAY, as old linkers put at the ends of .ctors. */
#include "assembly.h"
        .section .init_array,"aw"
        .balign 8
        .quad 0
        .quad first
        .quad -1
        .quad second
        .quad 0
        .section .fini_array,"aw"
        .balign 8
        .quad -1
        .quad 0
        .section .rodata
first_text:  .ascii "first\n"
second_text: .ascii "second\n"
test_text:   .ascii "test\n"
        .text
        .type first, @function
first:
        leaq first_text(%rip), %rdi
        movl $6, %esi
        jmp case_write@PLT
        .type second, @function
second:
        leaq second_text(%rip), %rdi
        movl $7, %esi
        jmp case_write@PLT
        test_begins
        leaq test_text(%rip), %rdi
        movl $5, %esi
        jmp case_write@PLT
