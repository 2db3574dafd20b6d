//# Area: refusals
//# Lib: main.so -Wl,-z,notext
//# Expect-error: text relocations
//# Differs: glibc makes the text writable, relocates it and loads the library
/* DT_TEXTREL. */
        .text
        .globl test
        .type test, @function
test:   ret
        .balign 8
        .quad test
        .section .note.GNU-stack,"",@progbits
