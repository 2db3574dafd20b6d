import ctypes, gc, json, os, queue, random, subprocess, sys, threading, time, weakref

if KIND == 'torch':
    import torch
    torch.set_num_threads(1)
elif KIND == 'numpy':
    import numpy


def matrix_sum(n):
    """The sum of a matrix of 0, 1, 2, ... with n rows and of its transposed one."""
    if KIND == 'torch':
        matrix = torch.arange(n * n).reshape(n, n)
        return int((matrix + matrix.T).sum())
    if KIND == 'numpy':
        matrix = numpy.arange(n * n, dtype=float).reshape(n, n)
        return int((matrix + matrix.T).sum())
    rows = [range(i * n, (i + 1) * n) for i in range(n)]
    return sum(map(sum, rows)) + sum(map(sum, zip(*rows)))


def work(n):
    return matrix_sum(n) + len(json.dumps(list(range(n))))


def digest(seed):
    """Random numbers of a seed, multiplied as matrices of 6 by 6."""
    if KIND == 'torch':
        generator = torch.Generator().manual_seed(seed)
        a, b = (torch.randint(-50, 50, (6, 6), generator=generator).float() for _ in 'ab')
        return int((a @ b).abs().sum())
    if KIND == 'numpy':
        generator = numpy.random.default_rng(seed)
        a, b = (generator.integers(-50, 50, (6, 6)).astype(float) for _ in 'ab')
        return int(abs(a @ b).sum())
    generator = random.Random(seed)
    a, b = ([[generator.randrange(-50, 50) for _ in range(6)] for _ in range(6)] for _ in 'ab')
    return sum(abs(sum(x * y for x, y in zip(row, column))) for row in a for column in zip(*b))


def fail(n):
    raise ValueError(f'fails with {n}')


def loop():
    while True:
        pass


def keep_the_gil(microseconds):
    ctypes.PyDLL(None).usleep(microseconds)


def sort(compare, values):
    """C calls Python, which calls the host."""
    integer = ctypes.POINTER(ctypes.c_long)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, integer, integer)
    numbers = (ctypes.c_long * len(values))(*values)
    size = ctypes.sizeof(ctypes.c_long)
    ctypes.CDLL(None).qsort(numbers, len(values), size, kind(lambda a, b: compare(a[0], b[0])))
    return list(numbers)


def call_address(address, n, keeps_the_gil):
    """Calls a function of the host as one of C, which Python takes for one that needs no GIL, or for one that needs it."""
    kind = ctypes.PYFUNCTYPE if keeps_the_gil else ctypes.CFUNCTYPE
    return kind(ctypes.c_long, ctypes.c_long)(address)(n)


class Kept:
    """An object to which other threads of the host refer."""

    def __init__(self, value):
        self.value = value
        self.itself = self


def count_kept():
    gc.collect()
    return sum(type(one) is Kept for one in gc.get_objects())


def take_views(view):
    """Looks at lent memory in parts, on another thread as well."""
    parts = []
    thread = threading.Thread(target=lambda: parts.append(sum(view[::2])), daemon=False)
    thread.start()
    parts.append(sum(view[1::2]))
    thread.join()
    return sum(parts)


def start_threads(n):
    done = []
    threads = [threading.Thread(target=done.append, args=(i,), daemon=False) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done)


def through_queues(n, daemon, patience=60):
    """Hands numbers to a thread and takes them back. The thread gives up by itself if nobody comes."""
    jobs, done = queue.Queue(), queue.Queue()

    def serve():
        try:
            while (job := jobs.get(timeout=patience)) is not None:
                done.put(job * job)
        except queue.Empty:
            pass

    thread = threading.Thread(target=serve, daemon=daemon)
    thread.start()
    for i in range(n):
        jobs.put(i)
    jobs.put(None)
    total = sum(done.get(timeout=120) for _ in range(n))
    thread.join()
    return total


lingering = []
one_at_a_time = threading.Lock()


def linger():
    """Leaves a thread behind that is there when the interpreter ends."""

    def wait():
        nothing = queue.Queue()
        while True:
            try:
                nothing.get(timeout=0.05)
            except queue.Empty:
                pass

    with one_at_a_time:
        if len(lingering) < 2:
            thread = threading.Thread(target=wait, daemon=True)
            thread.start()
            lingering.append(thread)
        return sum(thread.is_alive() for thread in lingering)


def run_child(n):
    said = subprocess.run(['sh', '-c', f'echo {n}; exit {n}'], stdout=subprocess.PIPE)
    return int(said.stdout) * 1000 + said.returncode


def fork(n, execute):
    child = os.fork()
    if child == 0:
        try:
            if execute:
                os.execv('/bin/sh', ['sh', '-c', f'exit {n}'])
            os._exit(sum([1] * n))
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# Each thread of the host forgets modules of its own: CPython fails where two threads forget one that is being imported. What
# they import themselves stays.
FORGOTTEN = [
    ('colorsys', 'getopt', '_csv'),
    ('fileinput', 'cmd', '_bisect'),
    ('sched', 'quopri', '_heapq'),
    ('tabnanny', 'plistlib', 'unicodedata'),
    ('netrc', 'wave', '_statistics'),
    ('shelve', 'timeit', '_lsprof'),
    ('trace', 'stringprep', '_opcode'),
    ('graphlib', 'pyclbr', '_queue'),
]

for name in sum(FORGOTTEN, ()):
    __import__(name)


def import_again(thread):
    for name in FORGOTTEN[thread]:
        before = sys.modules.pop(name, None)
        module = __import__(name)
        assert module.__name__ == name and module is sys.modules[name], name
        assert module is not before or name.startswith('_'), name
    return len(FORGOTTEN[thread])


class Finalized:
    def __init__(self, note, number):
        self.note, self.number = note, number

    def __del__(self):
        self.note(self.number)


def finalize(note, n):
    """Objects of which some are in cycles, and weak references with callbacks. Each notes its number when it ends."""
    seen = []

    def count(number):
        seen.append(number)
        note(number)

    for i in range(n):
        one = Finalized(count, 3 * i)
        two = Finalized(count, 3 * i + 1)
        two.itself = two
        weakref.finalize(one, count, 3 * i + 2)
        # Comparing weak references calls their referents.
        reference = weakref.ref(two, lambda _: None)
        del one, two, reference
    # Another thread may be collecting: then a call does nothing.
    end = time.monotonic() + 60
    while len(seen) < 3 * n and time.monotonic() < end:
        gc.collect()
    return sum(seen)


def churn(thread, n):
    """Work that an interrupt may hit: imports, starts of threads, queues, finalizers, weak references."""
    total = 0
    for _ in range(n):
        total += import_again(thread)
        total += through_queues(2, True, 5)
        total += start_threads(2)
        noted = []
        one = Finalized(noted.append, 7)
        weakref.finalize(one, noted.append, 1)
        del one
        total += sum(noted)
    return total


async def double(n):
    import asyncio

    await asyncio.sleep(0)
    return 2 * n


async def wait():
    import asyncio

    await asyncio.Event().wait()


async def gather(make, n):
    import asyncio

    return sum(await asyncio.gather(*(make(i) for i in range(n))))
