// Memory without a copy: lent to Python, written by it, read back, and given to another interpreter.

#include "check.h"
#include <stdatomic.h>

static atomic_int released;

static void release(void *context) {
    free(context);
    atomic_fetch_add(&released, 1);
}

int main(void) {
    hz_error *error = NULL;
    hz_pool *pool = new_pool(2, NULL);
    hz_session *first = NULL, *second = NULL;
    CHECK(hz_pool_acquire_on(pool, 0, &first, &error));
    CHECK(hz_pool_acquire_on(pool, 1, &second, &error));

    // Python writes into the program's memory.
    unsigned char *bytes = malloc(16);
    for (int at = 0; at < 16; at++) {
        bytes[at] = (unsigned char)at;
    }
    hz_object *view = NULL;
    CHECK(hz_session_lend(first, bytes, 16, false, release, bytes, &view, &error));
    hz_value place = hz_int(3), what = hz_int(200);
    CHECK(hz_object_set_item(view, first, &place, &what, &error));
    printf("bytes[3] is %d\n", bytes[3]);

    // The other interpreter sees the same memory.
    hz_buffer *buffer = NULL;
    CHECK(hz_object_to_buffer(view, first, false, &buffer, &error));
    hz_buffer_info info;
    CHECK(hz_buffer_describe(buffer, &info, &error));
    printf("%zu bytes of format %s, %s\n", info.len, info.format,
           info.data == (void *)bytes ? "in place" : "copied");
    hz_object *other = NULL, *sum = NULL, *builtins = NULL;
    CHECK(hz_session_object_from_buffer(second, buffer, &other, &error));
    CHECK(hz_session_import(second, "builtins", &builtins, &error));
    hz_value arguments[] = {hz_reference(other)};
    CHECK(hz_object_call_method(builtins, second, "sum", arguments, 1, NULL, 0, &sum, &error));
    int64_t total = 0;
    CHECK(hz_object_to_int(sum, second, &total, &error));
    printf("the sum is %lld\n", (long long)total);

    // An object of one interpreter cannot be used in the other.
    hz_status status = hz_object_len(view, second, &info.len, &error);
    printf("the view in the other interpreter: status %d\n", (int)status);
    hz_error_free(error);

    // A function that fails releases what it was to lend.
    hz_object *none = NULL;
    status = hz_session_lend(NULL, NULL, 1, true, release, malloc(1), &none, &error);
    printf("status %d: %s; released: %d\n", (int)status, hz_error_message(error), atomic_load(&released));
    hz_error_free(error);

    hz_object_free(sum);
    hz_object_free(builtins);
    hz_object_free(other);
    hz_buffer_free(buffer);
    hz_object_free(view);
    hz_session_free(second);
    hz_session_free(first);
    hz_pool_free(pool);
    printf("released: %d\n", atomic_load(&released));
    return 0;
}
