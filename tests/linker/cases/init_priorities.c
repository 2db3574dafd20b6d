//# Area: constructors
//# Lib: main.so
//# Compilers: gcc clang
//# Linkers: bfd lld mold gold
/* Priorities within DT_INIT_ARRAY and DT_FINI_ARRAY. */
#include "case.h"
__attribute__((constructor(300))) static void c(void) { say("begin 300"); }
__attribute__((constructor)) static void d(void) { say("begin"); }
__attribute__((constructor(150))) static void a(void) { say("begin 150"); }
__attribute__((constructor(200))) static void b(void) { say("begin 200"); }
__attribute__((destructor(300))) static void w(void) { say("end 300"); }
__attribute__((destructor)) static void x(void) { say("end"); }
__attribute__((destructor(150))) static void y(void) { say("end 150"); }
void test(void) { say("test"); }
