// Threads: each has a session of its own. A movable serves all of them. A loop is interrupted, and another one exceeds
// its time.

#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, CALLS = 25 };

static const char *SOURCE =
    "import functools\n"
    "def add(a, b):\n"
    "    return a + b\n"
    "adder = functools.partial(add, 1000)\n";

typedef struct worker {
    const hz_pool *pool;
    const hz_movable *movable;
    const hz_session *others;
    int64_t sum;
    hz_status misuse;
} worker;

static void *work(void *context) {
    worker *self = context;
    hz_error *error = NULL;
    hz_session *session = NULL;
    CHECK(hz_pool_acquire(self->pool, &session, &error));
    hz_object *module = NULL;
    CHECK(hz_session_import(session, "adding", &module, &error));
    for (int call = 0; call < CALLS; call++) {
        hz_value arguments[] = {hz_int(call), hz_int(1)};
        hz_object *result = NULL;
        int64_t value = 0;
        CHECK(hz_object_call_method(module, session, "add", arguments, 2, NULL, 0, &result, &error));
        CHECK(hz_object_to_int(result, session, &value, &error));
        hz_object_free(result);
        self->sum += value;
    }
    hz_value argument = hz_int(1);
    hz_plain *plain = NULL;
    CHECK(hz_movable_call(self->movable, &argument, 1, NULL, 0, &plain, &error));
    self->sum += hz_plain_value(plain)->data.integer;
    hz_plain_free(plain);
    // A session is its thread's.
    self->misuse = hz_session_import(self->others, "sys", NULL, NULL);
    hz_object_free(module);
    hz_session_free(session);
    return NULL;
}

typedef struct waker {
    const hz_interrupt_handle *handle;
    atomic_bool interrupted;
} waker;

static void *interrupt(void *context) {
    waker *self = context;
    while (!hz_interrupt_handle_interrupt(self->handle)) {
    }
    atomic_store(&self->interrupted, true);
    return NULL;
}

int main(void) {
    hz_error *error = NULL;
    hz_pool *pool = new_pool(2, NULL);
    CHECK(hz_pool_register_module(pool, "adding", SOURCE, &error));
    hz_session *session = NULL;
    CHECK(hz_pool_acquire(pool, &session, &error));

    hz_object *module = NULL, *adder = NULL;
    hz_movable *movable = NULL;
    CHECK(hz_session_import(session, "adding", &module, &error));
    CHECK(hz_object_getattr(module, session, "adder", &adder, &error));
    CHECK(hz_session_create_movable(session, adder, &movable, &error));

    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int at = 0; at < THREADS; at++) {
        workers[at] = (worker){.pool = pool, .movable = movable, .others = session};
        pthread_create(&threads[at], NULL, work, &workers[at]);
    }
    int64_t sum = 0;
    int misuses = 0;
    for (int at = 0; at < THREADS; at++) {
        pthread_join(threads[at], NULL);
        sum += workers[at].sum;
        misuses += workers[at].misuse == HZ_ERROR_THREAD;
    }
    printf("%d threads: %lld, %d misuses of a session\n", THREADS, (long long)sum, misuses);

    // Another thread ends a loop.
    hz_interrupt_handle *handle = NULL;
    CHECK(hz_session_interrupt_handle(session, &handle, &error));
    waker waker = {.handle = handle};
    pthread_t thread;
    pthread_create(&thread, NULL, interrupt, &waker);
    // The handle may come before the loop begins: then it interrupts the compilation.
    hz_status status = hz_session_run(session, "while True: pass", "loop.py", NULL, &error);
    pthread_join(thread, NULL);
    printf("the loop: status %d\n", (int)status);
    hz_error_free(error);

    // A limit of time ends another one.
    CHECK(hz_session_set_time_limit(session, 50, &error));
    status = hz_session_run(session, "while True: pass", "loop.py", NULL, &error);
    printf("the late loop: status %d\n", (int)status);
    hz_error_free(error);

    hz_interrupt_handle_free(handle);
    hz_movable_free(movable);
    hz_object_free(adder);
    hz_object_free(module);
    hz_session_free(session);
    CHECK(hz_pool_close(pool, 60000, &error));
    return 0;
}
