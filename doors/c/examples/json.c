// A first program: a pool, a module, a call with keywords, an exception with its traceback.

#include "check.h"

int main(void) {
    hz_error *error = NULL;
    hz_pool *pool = new_pool(1, NULL);
    hz_session *session = NULL;
    CHECK(hz_pool_acquire(pool, &session, &error));

    hz_object *json = NULL;
    CHECK(hz_session_import(session, "json", &json, &error));

    // json.dumps({"name": "hydrozoa", "sizes": [1, 2.5, None]}, sort_keys=True, separators=(",", ":"))
    hz_value sizes[] = {hz_int(1), hz_float(2.5), hz_none()};
    hz_value pairs[] = {hz_str("name"), hz_str("hydrozoa"), hz_str("sizes"), hz_list(sizes, 3)};
    hz_value separators[] = {hz_str(","), hz_str(":")};
    hz_value arguments[] = {hz_dict(pairs, 2)};
    hz_keyword keywords[] = {
        hz_named("sort_keys", hz_bool(true)),
        hz_named("separators", hz_tuple(separators, 2)),
    };
    hz_object *dumped = NULL;
    CHECK(hz_object_call_method(json, session, "dumps", arguments, 1, keywords, 2, &dumped, &error));
    hz_bytes *text = NULL;
    CHECK(hz_object_to_text(dumped, session, &text, &error));
    printf("%s\n", hz_bytes_data(text));

    // And back: json.loads(text)["sizes"], as a value of C.
    hz_value loads[] = {hz_text(hz_bytes_data(text), hz_bytes_len(text))};
    hz_object *loaded = NULL, *list = NULL;
    CHECK(hz_object_call_method(json, session, "loads", loads, 1, NULL, 0, &loaded, &error));
    hz_value key = hz_str("sizes");
    CHECK(hz_object_get_item(loaded, session, &key, &list, &error));
    hz_plain *plain = NULL;
    CHECK(hz_object_to_plain(list, session, &plain, &error));
    const hz_value *value = hz_plain_value(plain);
    printf("%zu sizes, the first is %lld\n", value->len, (long long)value->data.items[0].data.integer);

    // A failure.
    hz_value broken[] = {hz_str("[1, 2")};
    hz_status status = hz_object_call_method(json, session, "loads", broken, 1, NULL, 0, NULL, &error);
    printf("status %d: %s: %s\n", (int)status, hz_error_type_name(error), hz_error_message(error));
    hz_object *exception = NULL, *position = NULL;
    hz_error *inner = NULL;
    if (hz_error_exception(error, session, &exception, &inner) == HZ_OK &&
        hz_object_getattr(exception, session, "pos", &position, &inner) == HZ_OK) {
        int64_t at = 0;
        if (hz_object_to_int(position, session, &at, &inner) == HZ_OK) {
            printf("at %lld\n", (long long)at);
        }
    }
    printf("the traceback %s\n", hz_error_traceback(error)[0] != 0 ? "is there" : "is missing");

    hz_error_free(inner);
    hz_object_free(position);
    hz_object_free(exception);
    hz_error_free(error);
    hz_plain_free(plain);
    hz_object_free(list);
    hz_object_free(loaded);
    hz_bytes_free(text);
    hz_object_free(dumped);
    hz_object_free(json);
    hz_session_free(session);
    hz_pool_free(pool);
    return 0;
}
