// Queues between the program and two interpreters: order, room, memory without a copy; and the program's movables and
// packages as Python code finds them.

#include "../../examples/check.h"

static int released;

static void release(void *context) {
    free(context);
    released++;
}

static const char *PASS_ON =
    "def pass_on(companion, source, target):\n"
    "    data, views = companion.queue(source).get(5)\n"
    "    views[0][0] = 200\n"
    "    return companion.queue(target).put(data + b', passed on', views)\n"
    "def ask(companion, number):\n"
    "    try:\n"
    "        return companion.queue(number)\n"
    "    except LookupError as error:\n"
    "        return str(error)\n"
    "def call(companion, number, value):\n"
    "    return companion.movable(number)(value)\n"
    "def own(companion):\n"
    "    queue = companion.new_queue(1)\n"
    "    return queue.put(b'a'), queue.put(b'b'), len(queue), queue.max_len, queue.get(), queue.get(0.01)\n";

static hz_object *call(hz_session *session, const char *name, const hz_value *arguments, size_t count) {
    hz_error *error = NULL;
    hz_object *module = NULL, *result = NULL;
    CHECK(hz_session_run(session, PASS_ON, "pass_on.py", &module, &error));
    CHECK(hz_object_call_method(module, session, name, arguments, count, NULL, 0, &result, &error));
    hz_object_free(module);
    return result;
}

static void print(hz_session *session, hz_object *object) {
    hz_error *error = NULL;
    hz_bytes *text = NULL;
    CHECK(hz_object_repr(object, session, &text, &error));
    printf("%s\n", hz_bytes_data(text));
    hz_bytes_free(text);
    hz_object_free(object);
}

int main(void) {
    hz_error *error = NULL;
    hz_queue *source = hz_queue_new(1), *target = hz_queue_new(0), *again = NULL;
    CHECK(hz_queue_from_id(hz_queue_id(source), &again, &error));
    printf("%zu, %zu, the same %d, another %d\n", hz_queue_max_len(again), hz_queue_max_len(target),
           hz_queue_id(again) == hz_queue_id(source), hz_queue_id(target) == hz_queue_id(source));

    // Memory is taken if it is put.
    unsigned char *bytes = malloc(4);
    bytes[0] = 7;
    hz_memory memory = {bytes, 4, false, release, bytes};
    bool is_put = false;
    CHECK(hz_queue_put(source, "bytes", 5, &memory, 1, 0, &is_put, &error));
    printf("put %d\n", is_put);
    CHECK(hz_queue_put(again, "more", 4, &memory, 1, 10, &is_put, &error));
    printf("put %d, %zu there, %d released\n", is_put, hz_queue_len(again), released);

    // Two interpreters pass it on.
    hz_queue *last = hz_queue_new(0);
    hz_pool *pool = new_pool(2, NULL);
    const hz_queue *ways[] = {source, target, last};
    for (size_t index = 0; index < 2; index++) {
        hz_session *session = NULL;
        hz_object *companion = NULL;
        CHECK(hz_pool_acquire_on(pool, index, &session, &error));
        CHECK(hz_session_companion(session, &companion, &error));
        hz_value arguments[] = {hz_reference(companion), hz_int((int64_t)hz_queue_id(ways[index])),
                                hz_int((int64_t)hz_queue_id(ways[index + 1]))};
        print(session, call(session, "pass_on", arguments, 3));
        hz_object_free(companion);
        hz_session_free(session);
    }
    hz_message *message = NULL;
    CHECK(hz_queue_get(last, 1000, &message, &error));
    printf("%.*s, %zu piece\n", (int)hz_message_len(message), hz_message_data(message), hz_message_memory_count(message));
    hz_memory piece;
    CHECK(hz_message_memory(message, 0, &piece, &error));
    hz_status status = hz_message_memory(message, 1, &memory, &error);
    printf("status %d: %s\n", (int)status, hz_error_message(error));
    hz_error_free(error);
    hz_message_free(message);
    printf("%zu bytes %s, the first is %d, to be written %d\n", piece.len, piece.data == bytes ? "in place" : "copied",
           bytes[0], !piece.read_only);
    CHECK(hz_queue_get(last, 10, &message, &error));
    printf("another message: %d\n", message != NULL);

    // An unknown number is a LookupError.
    hz_session *session = NULL;
    hz_object *companion = NULL, *builtins = NULL, *function = NULL;
    CHECK(hz_pool_acquire(pool, &session, &error));
    CHECK(hz_session_companion(session, &companion, &error));
    hz_value arguments[] = {hz_reference(companion), hz_int(1 << 20), hz_int(-5)};
    print(session, call(session, "ask", arguments, 2));
    print(session, call(session, "own", arguments, 1));
    hz_movable *movable = NULL;
    CHECK(hz_session_import(session, "builtins", &builtins, &error));
    CHECK(hz_object_getattr(builtins, session, "abs", &function, &error));
    CHECK(hz_session_create_movable(session, function, &movable, &error));
    arguments[1] = hz_int((int64_t)hz_movable_id(movable));
    print(session, call(session, "call", arguments, 3));

    hz_movable_free(movable);
    hz_object_free(function);
    hz_object_free(builtins);
    hz_object_free(companion);
    hz_session_free(session);
    hz_pool_free(pool);
    hz_queue_free(last);
    hz_queue_free(target);
    hz_queue_free(again);
    hz_queue_free(source);
    printf("released: %d\n", released);
    piece.release(piece.context);
    printf("released: %d\n", released);
    return 0;
}
