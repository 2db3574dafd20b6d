# The module in each interpreter, for tests/containment.rs. LIBRARY is the path of the library.
import ctypes, os, sys, threading
library = ctypes.CDLL(LIBRARY)


def crash(name):
    if name in globals():
        globals()[name]()
    else:
        getattr(library, name)(0)


# Kinds of crashes that Python makes.
def reads_nothing():
    ctypes.string_at(0)


def aborts():
    os.abort()


def recurses():
    # Each call goes through C.
    import functools
    sys.setrecursionlimit(10**9)

    def call():
        return functools.reduce(lambda a, b: call(), [1, 2])
    call()


def sends():
    import subprocess
    code = "import ctypes, sys; ctypes.CDLL(None).syscall(234, int(sys.argv[1]), int(sys.argv[2]), 8)"
    subprocess.run(["python3", "-c", code, str(os.getpid()), str(threading.get_native_id())])


def breaks_the_host():
    breaking()


def crashes_in_a_child():
    child = os.fork()
    if child == 0:
        library.crashes(0)
    status = os.waitpid(child, 0)[1]
    assert os.WTERMSIG(status) == 11, status
    library.crashes(0)


# Blocks for others.
def takes(size):
    library.takes.restype = ctypes.c_void_p
    return library.takes(ctypes.c_size_t(size))


def frees_twice_what_is_at(address):
    library.frees_twice_this(ctypes.c_void_p(address))


def frees_what_is_at(address):
    library.frees_this(ctypes.c_void_p(address))


def enlarges_what_is_at(address, size):
    library.enlarges_this(ctypes.c_void_p(address), ctypes.c_size_t(size))


# Where they happen.
def on_a_python_thread(name):
    thread = threading.Thread(target=crash, args=(name,))
    thread.start()
    thread.join()


def on_a_std_thread(name):
    # Threads of native code that find no function of theirs call Python.
    function = ctypes.CFUNCTYPE(None)(lambda: crash(name)) if name in globals() else getattr(library, name)
    library.calls_on_a_thread(ctypes.cast(function, ctypes.c_void_p))


def calls_the_host():
    host()


def crashes_at_the_end():
    import atexit
    atexit.register(library.crashes, 0)


# Other threads do this meanwhile.
def waits():
    threading.Event().wait()


def keeps_busy():
    while True:
        pass


def answer(n):
    return sum(i * i for i in range(n))
