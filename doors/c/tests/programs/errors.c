// Provokes each status of hydrozoa.h, but for HZ_ERROR_PANIC: no call is known that does. Prints what it was told.

#include "../../examples/check.h"
#include <pthread.h>
#include <string.h>

// The call fails with that status; its message and its type begin with these words.
static void fails(const char *name, hz_status status, hz_status expected, hz_error *error, const char *words) {
    const char *text = hz_error_message(error);
    if (status != expected || hz_error_status(error) != expected || strstr(text, words) == NULL) {
        fprintf(stderr, "%s: status %d, and %d in the error, for %d: %s\n", name, (int)status,
                (int)hz_error_status(error), (int)expected, text);
        exit(1);
    }
    printf("%s\n", name);
    hz_error_free(error);
}

#define FAILS(status, call, words)                          \
    do {                                                    \
        hz_status returned = (call);                        \
        fails(#status, returned, status, error, words);     \
    } while (0)

static void *use_elsewhere(void *session) {
    hz_error *error = NULL;
    FAILS(HZ_ERROR_THREAD, hz_session_import(session, "sys", NULL, &error),
          "was used by a thread that has not acquired it");
    return NULL;
}

static void *use_a_small_stack(void *pool) {
    hz_error *error = NULL;
    hz_session *session = NULL;
    CHECK(hz_pool_acquire(pool, &session, &error));
    FAILS(HZ_ERROR_SYSTEM, hz_session_import(session, "sys", NULL, &error), "of stack left");
    hz_session_free(session);
    return NULL;
}

static void *interrupt(void *handle) {
    while (!hz_interrupt_handle_interrupt(handle)) {
    }
    return NULL;
}

static void of_building(void) {
    hz_error *error = NULL;
    hz_pool *pool = NULL;
    hz_builder *builder = hz_builder_new();
    CHECK(hz_builder_python(builder, "/nonexistent/python", &error));
    FAILS(HZ_ERROR_PYTHON_NOT_FOUND, hz_builder_build(builder, &pool, &error), "no usable Python was found");
    hz_builder_free(builder);

    builder = hz_builder_new();
    CHECK(hz_builder_interpreters(builder, 0, &error));
    FAILS(HZ_ERROR_CONFIGURATION, hz_builder_build(builder, &pool, &error), "at least one interpreter");
    CHECK(hz_builder_interpreters(builder, 1, &error));
    CHECK(hz_builder_memory_limit(builder, 1000, &error));
    FAILS(HZ_ERROR_START, hz_builder_build(builder, &pool, &error), "did not start");
    const char *variables[] = {"NAME=VALUE", "NAME"};
    FAILS(HZ_ERROR_INVALID_ARGUMENT, hz_builder_environment(builder, variables, 2, &error), "it has no '='");
    FAILS(HZ_ERROR_INVALID_ARGUMENT, hz_builder_share(builder, "\xff", &error), "is not UTF-8");
    if (pool != NULL) {
        exit(1);
    }
    hz_builder_free(builder);
}

static void of_calls(hz_pool *pool, hz_session *session) {
    hz_error *error = NULL;
    hz_object *object = NULL;
    FAILS(HZ_ERROR_PYTHON, hz_session_eval(session, "1 / 0", &object, &error), "division by zero");
    if (object != NULL) {
        exit(1);
    }
    CHECK(hz_session_eval(session, "'text'", &object, &error));
    int64_t number = 0;
    FAILS(HZ_ERROR_CONVERT, hz_object_to_int(object, session, &number, &error), "cannot convert");
    hz_session *other = NULL;
    CHECK(hz_pool_acquire_on(pool, 1, &other, &error));
    size_t len = 0;
    FAILS(HZ_ERROR_FOREIGN, hz_object_len(object, other, &len, &error), "was passed to");
    hz_session *third = NULL;
    FAILS(HZ_ERROR_BUSY, hz_pool_acquire_timeout(pool, 1, &third, &error), "are leased");
    hz_session_free(other);

    CHECK(hz_session_set_time_limit(session, 20, &error));
    // On a busy machine the call may not have begun by then, and says so.
    FAILS(HZ_ERROR_DEADLINE, hz_session_run(session, "while True: pass", "loop.py", NULL, &error), "its deadline");
    CHECK(hz_session_set_time_limit(session, 0, &error));
    hz_interrupt_handle *handle = NULL;
    CHECK(hz_session_interrupt_handle(session, &handle, &error));
    pthread_t thread;
    pthread_create(&thread, NULL, interrupt, handle);
    FAILS(HZ_ERROR_INTERRUPTED, hz_session_run(session, "while True: pass", "loop.py", NULL, &error),
          "was interrupted");
    pthread_join(thread, NULL);
    hz_interrupt_handle_free(handle);
    hz_object_free(object);
}

static void of_values(hz_session *session) {
    hz_error *error = NULL;
    hz_object *object = NULL;
    hz_value value = hz_none();
    value.kind = 99;
    FAILS(HZ_ERROR_INVALID_ARGUMENT, hz_session_object(session, &value, &object, &error), "the unknown kind 99");
    value = hz_text("\xff\xfe", 2);
    FAILS(HZ_ERROR_INVALID_ARGUMENT, hz_session_object(session, &value, &object, &error), "is not UTF-8");
    value = hz_list(&value, 1);
    FAILS(HZ_ERROR_INVALID_ARGUMENT, hz_session_object(session, &value, &object, &error), "contains itself");
    value = hz_list(NULL, 3);
    FAILS(HZ_ERROR_INVALID_ARGUMENT, hz_session_object(session, &value, &object, &error), "is NULL");
    value = hz_dict(&value, SIZE_MAX);
    FAILS(HZ_ERROR_INVALID_ARGUMENT, hz_session_object(session, &value, &object, &error), "cannot have");
    FAILS(HZ_ERROR_INVALID_ARGUMENT, hz_session_object_from_dlpack(session, NULL, &object, &error),
          "tensor is NULL");
}

static void of_crashes(void) {
    hz_error *error = NULL;
    hz_pool *pool = NULL;
    hz_session *session = NULL;
    hz_builder *builder = hz_builder_new();
    CHECK(hz_builder_interpreters(builder, 1, &error));
    CHECK(hz_builder_contain_crashes(builder, true, &error));
    CHECK(hz_builder_build(builder, &pool, &error));
    hz_builder_free(builder);
    CHECK(hz_pool_acquire(pool, &session, &error));
    FAILS(HZ_ERROR_CRASHED, hz_session_run(session, "import ctypes; ctypes.string_at(0)", "crash.py", NULL, &error),
          "has crashed (hz_error_report has the report): SIGSEGV in ");
    hz_session_free(session);
    hz_pool_free(pool);
}

int main(void) {
    of_building();
    of_crashes();
    hz_error *error = NULL;
    hz_pool *pool = new_pool(2, NULL);
    hz_session *session = NULL;
    CHECK(hz_pool_acquire_on(pool, 0, &session, &error));

    pthread_t thread;
    pthread_create(&thread, NULL, use_elsewhere, session);
    pthread_join(thread, NULL);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 96 * 1024);
    pthread_create(&thread, &small, use_a_small_stack, pool);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&small);

    of_calls(pool, session);
    of_values(session);
    // The place of a result is NULL then, whatever was in it before.
    hz_object *result = (hz_object *)&error;
    FAILS(HZ_ERROR_INVALID_ARGUMENT, hz_object_getattr(NULL, session, "name", &result, &error), "object is NULL");
    if (result != NULL) {
        fprintf(stderr, "a function that failed has left a result\n");
        return 1;
    }
    hz_session *none = NULL;
    FAILS(HZ_ERROR_NO_SUCH_INTERPRETER, hz_pool_acquire_on(pool, 99, &none, &error), "there is no interpreter 99");
    hz_package *package = NULL;
    FAILS(HZ_ERROR_PACKAGE, hz_pool_load_package(pool, "/nonexistent.pt", &package, &error), "/nonexistent.pt");

    // The object of an interpreter that has ended.
    hz_object *object = NULL;
    CHECK(hz_session_eval(session, "'text'", &object, &error));
    hz_session_free(session);
    CHECK(hz_pool_replace(pool, 0, &error));
    CHECK(hz_pool_acquire_on(pool, 0, &session, &error));
    size_t len = 0;
    FAILS(HZ_ERROR_ENDED, hz_object_len(object, session, &len, &error), "has ended");
    hz_object_free(object);

    FAILS(HZ_ERROR_IN_USE, hz_pool_close(pool, 1, &error), "a session on it is open");
    hz_session_free(session);
    return 0;
}
