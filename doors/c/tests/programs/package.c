// A package that Python writes in the form of torch.package, without torch: text, bytes, a module, and an object for
// all interpreters. The argument is a path for it.

#include "../../examples/check.h"

static const char *WRITE =
    "import pickle, zipfile\n"
    "def write(path):\n"
    "    with zipfile.ZipFile(path, 'w') as archive:\n"
    "        for name, content in {\n"
    "            '.data/extern_modules': 'operator\\n',\n"
    "            'shapes.py': 'import operator\\n\\ndef area(a, b):\\n    return operator.mul(a, b)\\n',\n"
    "            'data/words.txt': 'some words',\n"
    "            'data/numbers.bin': bytes([1, 0, 2]),\n"
    "            'data/table.pkl': pickle.dumps({'rows': [1, 2, 3], 'big': 2 ** 80}),\n"
    "        }.items():\n"
    "            archive.writestr(f'package/{name}', content)\n";

int main(int count, char **paths) {
    if (count != 2) {
        return 2;
    }
    hz_error *error = NULL;
    hz_pool *pool = new_pool(2, NULL);
    hz_session *session = NULL;
    CHECK(hz_pool_acquire(pool, &session, &error));
    hz_object *writer = NULL;
    CHECK(hz_session_run(session, WRITE, "writer.py", &writer, &error));
    hz_value path = hz_str(paths[1]);
    CHECK(hz_object_call_method(writer, session, "write", &path, 1, NULL, 0, NULL, &error));

    hz_package *package = NULL;
    CHECK(hz_pool_load_package(pool, paths[1], &package, &error));
    hz_bytes *words = NULL, *numbers = NULL;
    CHECK(hz_package_load_text(package, "data", "words.txt", &words, &error));
    CHECK(hz_package_load_binary(package, "data", "numbers.bin", &numbers, &error));
    printf("%s, %zu numbers, the last is %d\n", hz_bytes_data(words), hz_bytes_len(numbers),
           hz_bytes_data(numbers)[2]);

    hz_object *shapes = NULL, *area = NULL;
    CHECK(hz_package_import(package, session, "shapes", &shapes, &error));
    hz_value sides[] = {hz_int(6), hz_int(7)};
    CHECK(hz_object_call_method(shapes, session, "area", sides, 2, NULL, 0, &area, &error));
    int64_t product = 0;
    CHECK(hz_object_to_int(area, session, &product, &error));
    printf("area %lld\n", (long long)product);

    // Each interpreter has a copy of its own.
    hz_movable *movable = NULL;
    CHECK(hz_package_load_pickle(package, "data", "table.pkl", &movable, &error));
    for (size_t index = 0; index < hz_pool_size(pool); index++) {
        hz_session *on = NULL;
        hz_object *table = NULL, *big = NULL;
        hz_plain *plain = NULL;
        CHECK(hz_pool_acquire_on(pool, index, &on, &error));
        CHECK(hz_movable_to_object(movable, on, &table, &error));
        hz_value key = hz_str("big");
        CHECK(hz_object_get_item(table, on, &key, &big, &error));
        CHECK(hz_object_to_plain(big, on, &plain, &error));
        const hz_value *value = hz_plain_value(plain);
        hz_object *again = NULL;
        hz_bytes *text = NULL;
        CHECK(hz_session_object(on, value, &again, &error));
        CHECK(hz_object_str(again, on, &text, &error));
        printf("kind %u of %zu bytes: %s\n", (unsigned)value->kind, value->len, hz_bytes_data(text));
        CHECK(hz_movable_unload(movable, on, &error));
        hz_bytes_free(text);
        hz_object_free(again);
        hz_plain_free(plain);
        hz_object_free(big);
        hz_object_free(table);
        hz_session_free(on);
    }

    hz_movable_free(movable);
    hz_object_free(area);
    hz_object_free(shapes);
    hz_bytes_free(numbers);
    hz_bytes_free(words);
    hz_package_free(package);
    hz_object_free(writer);
    hz_session_free(session);
    hz_pool_free(pool);
    return 0;
}
