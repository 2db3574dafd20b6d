// Error handling of the examples: they print the error and end.

#ifndef CHECK_H
#define CHECK_H

#include <hydrozoa.h>
#include <stdio.h>
#include <stdlib.h>

// Ends the program unless the call has done what it should. Each example has `hz_error *error`.
#define CHECK(call)                                                                                     \
    do {                                                                                                \
        if ((call) != HZ_OK) {                                                                          \
            fprintf(stderr, "%s:%d: %s: %s\n%s", __FILE__, __LINE__, hz_error_type_name(error),         \
                    hz_error_message(error), hz_error_traceback(error));                                \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

// A pool of so many interpreters. `venv` is a virtual environment, or NULL for the best Python of the machine.
static inline hz_pool *new_pool(size_t interpreters, const char *venv) {
    hz_error *error = NULL;
    hz_builder *builder = hz_builder_new();
    CHECK(hz_builder_interpreters(builder, interpreters, &error));
    if (venv != NULL) {
        CHECK(hz_builder_venv(builder, venv, &error));
    }
    hz_pool *pool = NULL;
    CHECK(hz_builder_build(builder, &pool, &error));
    hz_builder_free(builder);
    return pool;
}

#endif  // CHECK_H
