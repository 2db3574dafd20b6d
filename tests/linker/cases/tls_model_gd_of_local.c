//# Area: tls models
//# Machine: x86_64
//# Lib: main.so
//# Linkers: bfd gold lld mold
/* General-dynamic code that reaches data which nobody else sees: gold's relocation of the module names the
   symbol of the section, others' none. Seen in a wheel (ray). */
#include "case.h"
__asm__(".section .tbss,\"awT\",@nobits\n.balign 8\nhidden_one: .zero 8\nhidden_two: .zero 8\n.previous\n"
        ".section .tdata,\"awT\",@progbits\n.balign 8\nhidden_set: .quad 7\n.previous\n");
#define ADDRESS(of)                                                                                \
    ({                                                                                             \
        long *address;                                                                             \
        __asm__ volatile(".byte 0x66\n\tleaq " #of "@tlsgd(%%rip), %%rdi\n\t.value 0x6666\n\trex64\n\t" \
                         "call __tls_get_addr@PLT"                                                 \
                         : "=a"(address)                                                           \
                         :                                                                         \
                         : "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10", "r11", "memory", "cc");  \
        address;                                                                                   \
    })
__attribute__((noinline)) static void look(void)
{
    long *one = ADDRESS(hidden_one), *two = ADDRESS(hidden_two), *set = ADDRESS(hidden_set);
    say("%ld %ld %ld, %d", (*one)++, (*two)--, (*set)++, two == one + 1);
}
static void *thread(void *nothing)
{
    look();
    return nothing;
}
void test(void)
{
    pthread_t id;
    look();
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
    look();
}
