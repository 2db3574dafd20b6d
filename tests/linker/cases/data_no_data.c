//# Area: mapping
//# Lib: main.so -nostdlib -Wl,--defsym=unused=0
//# Linkers: bfd lld
//# Symbols: off an absolute symbol of value 0 is a definition to us and to newer glibc only
/* An object with code and hardly anything else. */
void case_write(const char *text, unsigned long length);
void test(void) { case_write("bare\n", 5); }
