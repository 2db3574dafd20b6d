//# Area: sanitizers
//# Lib: main.so -fsanitize=address -fsanitize-recover=address
//# Env: LD_PRELOAD={libasan}
//# Env: ASAN_OPTIONS=halt_on_error=0:detect_leaks=0
//# Modes: one program interleaved; the runtime has one callback for the process
//# Steps: 1
//# Expect-stderr: heap-buffer-overflow
//# Expect-output: heap-buffer-overflow in main.so
//# Expect-output: global-buffer-overflow in main.so
//# Expect-output: heap-use-after-free in main.so
/* AddressSanitizer finds errors in each copy, those on the copy's own variables too, and names the file. */
#include "case.h"
static int variables[4] = {1, 2, 3, 4};
static volatile int *volatile pointer = variables;
void __asan_set_error_report_callback(void (*)(const char *));
__attribute__((no_sanitize("address"))) static void report(const char *text)
{
    static const char *const kinds[] = {
        "heap-buffer-overflow", "global-buffer-overflow", "heap-use-after-free",
    };
    for (int kind = 0; kind < 3; kind++)
        if (strstr(text, kinds[kind]))
            say("%s%s", kinds[kind], strstr(text, "main.so+0x") ? " in main.so" : "");
}
void test(void)
{
    __asan_set_error_report_callback(report);
    volatile int *volatile heap = malloc(4 * sizeof(int));
    heap[4] = 1;
    pointer[4] = 1;
    free((void *)heap);
    heap[0] = 1;
}
