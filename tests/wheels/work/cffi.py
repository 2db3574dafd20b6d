"""ABI mode on the C library, callbacks, a compiled module, structures, errno"""

import cffi

ffi = cffi.FFI()
ffi.cdef(
    """
    typedef struct { int quot; int rem; } div_t;
    div_t div(int, int);
    size_t strlen(const char *);
    void qsort(void *, size_t, size_t, int (*)(const void *, const void *));
    int Py_IsInitialized(void);
    double strtod(const char *, char **);
    """
)


def work(tell):
    library = ffi.dlopen(None)
    result = library.div(47, 5)
    tell("struct", [result.quot, result.rem, library.strlen(b"seven")])
    values = ffi.new("int[]", [(i * 7919) % 1009 for i in range(1000)])

    @ffi.callback("int(const void *, const void *)")
    def compare(a, b):
        return ffi.cast("const int *", a)[0] - ffi.cast("const int *", b)[0]

    library.qsort(values, len(values), ffi.sizeof("int"), compare)
    tell("sorted", list(values))
    # The process's name space holds this interpreter's own library.
    tell("interpreter", library.Py_IsInitialized())
    end = ffi.new("char **")
    text = ffi.new("char[]", b"2.5e3rest")
    tell("number", [library.strtod(text, end), ffi.string(end[0])])
    ffi.errno = 34
    tell("errno", ffi.errno)
    try:
        ffi.new("unknown_t *")
    except cffi.CDefError as error:
        tell("error", str(error))
