#include <hydrozoa.h>
#include <stdio.h>

int main(void) {
    hz_error *error = NULL;
    hz_pool *pool = NULL;
    hz_session *session = NULL;
    hz_object *math = NULL, *root = NULL;
    double value = 0;

    hz_builder *builder = hz_builder_new();
    hz_value two = hz_float(2);
    if (hz_builder_interpreters(builder, 2, &error) == HZ_OK &&
        hz_builder_build(builder, &pool, &error) == HZ_OK &&
        hz_pool_acquire(pool, &session, &error) == HZ_OK &&
        hz_session_import(session, "math", &math, &error) == HZ_OK &&
        hz_object_call_method(math, session, "sqrt", &two, 1, NULL, 0, &root, &error) == HZ_OK &&
        hz_object_to_float(root, session, &value, &error) == HZ_OK) {
        printf("%.6f\n", value);
    } else {
        fprintf(stderr, "%s\n%s", hz_error_message(error), hz_error_traceback(error));
    }

    int status = error == NULL ? 0 : 1;
    hz_error_free(error);
    hz_object_free(root);
    hz_object_free(math);
    hz_session_free(session);
    hz_pool_free(pool);
    hz_builder_free(builder);
    return status;
}
