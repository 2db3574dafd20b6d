/* Loads the stand-in for itself alone, as Python's module `tritonserver` does, and the backend.
 * program CORE BACKEND FOLDER MODEL_CONFIG BACKEND_CONFIG */

#include <dlfcn.h>
#include <stdio.h>

#include "core.h"

static void *find(void *library, const char *name)
{
    void *address = library ? dlsym(library, name) : NULL;
    if (!address)
        fprintf(stderr, "%s: %s\n", name, dlerror());
    return address;
}

int main(int count, char **arguments)
{
    if (count != 6)
        return 2;
    void *core = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    void *backend = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
    static const char *const names[] = {
        "TRITONBACKEND_Initialize",         "TRITONBACKEND_Finalize",
        "TRITONBACKEND_ModelInitialize",    "TRITONBACKEND_ModelFinalize",
        "TRITONBACKEND_ModelInstanceInitialize", "TRITONBACKEND_ModelInstanceFinalize",
        "TRITONBACKEND_ModelInstanceExecute",
    };
    enum { COUNT = sizeof names / sizeof *names };
    union {
        void *addresses[COUNT];
        Functions functions;
    } found;
    int (*run)(const Functions *, const char *, const char *, const char *);
    *(void **)&run = find(core, "run");
    for (int place = 0; place < COUNT; ++place)
        if (!(found.addresses[place] = find(backend, names[place])))
            return 1;
    return run ? run(&found.functions, arguments[3], arguments[4], arguments[5]) : 1;
}
