//# Area: relocations
//# Machine: x86_64
//# Lib: dep.so
//# Lib: main.so dep.so
//# Differs: glibc up to 2.36 at least has PC64 for itself only and ends with "unexpected reloc type"
//# Expect-output: C
//# Expect-output: C
/* R_X86_64_PC64 in data, against another object's symbol. */
#include "assembly.h"
#ifdef DEP
        .data
        public far_data, 8
        .quad 77
#else
        .data
        .balign 8
distance: .quad far_data - .
        test_begins
        pushq %rbx
        subq $16, %rsp
        leaq distance(%rip), %rax
        addq (%rax), %rax
        movq (%rax), %rcx          # 77
        leaq -10(%rcx), %rcx       # 67: 'C'
        movb %cl, (%rsp)
        movb $10, 1(%rsp)
        movq %rsp, %rdi
        movl $2, %esi
        call case_write@PLT
        addq $16, %rsp
        popq %rbx
        ret
#endif
