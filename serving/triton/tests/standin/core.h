/* The functions of a backend, shared by the program and the stand-in. */

struct Error;

typedef struct Functions {
    struct Error *(*initialize)(void *);
    struct Error *(*finalize)(void *);
    struct Error *(*model_initialize)(void *);
    struct Error *(*model_finalize)(void *);
    struct Error *(*instance_initialize)(void *);
    struct Error *(*instance_finalize)(void *);
    struct Error *(*execute)(void *, void **, unsigned);
} Functions;
