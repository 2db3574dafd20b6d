/* A library that takes memory from malloc, for tests/heap.rs. */
#define _GNU_SOURCE
#include <argz.h>
#include <envz.h>
#include <errno.h>
#include <malloc.h>
#include <obstack.h>
#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#include <wordexp.h>

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free
#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)

/* Blocks of the caller that functions of the C library enlarge and free. */
int the_c_library_enlarges(void) {
    FILE *file = tmpfile();
    char *buffer = malloc(1 << 14);
    CHECK(file && buffer && setvbuf(file, buffer, _IOFBF, 1 << 14) == 0);
    for (int line = 1; line < 200; ++line) {
        for (int i = 0; i < line * 50; ++i) fputc('a' + i % 26, file);
        fputc('\n', file);
    }
    rewind(file);
    size_t size = 8;
    char *text = malloc(size);
    for (int line = 1; line < 200; ++line) {
        ssize_t length = line % 2 ? getline(&text, &size, file) : getdelim(&text, &size, '\n', file);
        CHECK(length == line * 50 + 1 && text[length - 2] == 'a' + (length - 2) % 26);
    }
    fclose(file);
    free(text);
    free(buffer);

    char *argz = strdup("first");
    size_t length = 6;
    for (int i = 0; i < 500; ++i) CHECK(argz_add(&argz, &length, "another") == 0);
    CHECK(envz_add(&argz, &length, "NAME", "value") == 0);
    CHECK(argz_count(argz, length) == 502 && strcmp(envz_get(argz, length, "NAME"), "value") == 0);
    argz_delete(&argz, &length, argz);
    CHECK(strcmp(argz, "another") == 0);
    free(argz);

    wordexp_t words;
    CHECK(wordexp("one two", &words, 0) == 0);
    CHECK(wordexp("three four", &words, WRDE_APPEND) == 0 && words.we_wordc == 4);
    words.we_wordv[0] = realloc(words.we_wordv[0], 100);
    wordfree(&words);

    regex_t expression;
    memset(&expression, 0, sizeof expression);
    expression.fastmap = NULL;
    expression.translate = NULL;
    expression.buffer = NULL;
    CHECK(regcomp(&expression, "^a(b|c)*d$", REG_EXTENDED) == 0);
    CHECK(regexec(&expression, "abcbcd", 0, NULL, 0) == 0);
    regfree(&expression);
    struct re_pattern_buffer pattern;
    memset(&pattern, 0, sizeof pattern);
    pattern.fastmap = malloc(256);
    re_set_syntax(RE_SYNTAX_POSIX_EXTENDED);
    CHECK(re_compile_pattern("x+y", 3, &pattern) == NULL && re_match(&pattern, "xxy", 3, 0, NULL) == 3);
    regfree(&pattern);

    struct obstack stack;
    obstack_init(&stack);
    for (int i = 0; i < 3000; ++i) CHECK(obstack_copy(&stack, "some text", 10));
    obstack_free(&stack, NULL);

    char *made;
    CHECK(asprintf(&made, "%d %s", 7, "seven") == 7);
    made = realloc(made, 100000);
    CHECK(strcmp(made, "7 seven") == 0);
    free(made);
    FILE *stream = open_memstream(&made, &size);
    for (int i = 0; i < 10000; ++i) fputs("text", stream);
    fclose(stream);
    CHECK(size == 40000 && malloc_usable_size(made) >= 40000);
    free(made);
    made = getcwd(NULL, 0);
    CHECK(made && made[0] == '/');
    free(made);
    return 0;
}

int each_function_gives_memory(void) {
    void *place = NULL;
    CHECK(posix_memalign(&place, 24, 10) == EINVAL && posix_memalign(&place, 4096, 10) == 0);
    CHECK((uintptr_t)place % 4096 == 0 && malloc_usable_size(place) >= 10);
    free(place);
    size_t alignments[] = {16, 64, 4096, 1 << 20};
    for (int i = 0; i < 4; ++i) {
        void *one = aligned_alloc(alignments[i], alignments[i] * 2), *other = memalign(alignments[i], 10);
        CHECK((uintptr_t)one % alignments[i] == 0 && (uintptr_t)other % alignments[i] == 0);
        memset(one, 1, alignments[i] * 2);
        free(other);
        one = realloc(one, alignments[i] * 3);
        CHECK(((char *)one)[alignments[i] * 2 - 1] == 1);
        free(one);
    }
    place = valloc(5);
    CHECK((uintptr_t)place % 4096 == 0);
    free(place);
    place = pvalloc(5);
    CHECK((uintptr_t)place % 4096 == 0 && malloc_usable_size(place) >= 4096);
    free(place);
    char *text = strndup("some text", 4);
    CHECK(strcmp(text, "some") == 0);
    free(text);
    wchar_t *wide = wcsdup(L"wide");
    CHECK(wcscmp(wide, L"wide") == 0);
    free(wide);
    errno = 0;
    volatile size_t much = SIZE_MAX / 2;
    CHECK(calloc(much, 4) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(reallocarray(NULL, much, 4) == NULL && errno == ENOMEM && malloc(much) == NULL);
    long *numbers = calloc(1000, sizeof *numbers);
    for (int i = 0; i < 1000; ++i) CHECK(numbers[i] == 0);
    numbers = reallocarray(numbers, 100000, sizeof *numbers);
    CHECK(numbers != NULL && realloc(numbers, 0) == NULL);
    free(NULL);
    return malloc_usable_size(NULL);
}

/* How many mebibytes it gets, of so many. */
int takes(int mebibytes, int keeps) {
    static void *blocks[4096];
    int got = 0;
    while (got < mebibytes && (blocks[got] = malloc(1 << 20)) != NULL) memset(blocks[got++], 1, 1 << 20);
    if (!keeps) for (int i = 0; i < got; ++i) free(blocks[i]);
    return got;
}
int small_ones(int count) {
    for (int i = 0; i < count; ++i) memset(malloc(1000), 1, 1000);
    return count;
}
static char *kept;
int keeps(int bytes) { memset(kept = malloc(bytes), 7, bytes); return bytes; }
int is_kept(int bytes) {
    for (int i = 0; i < bytes; ++i) if (kept[i] != 7) return 0;
    return 1;
}
