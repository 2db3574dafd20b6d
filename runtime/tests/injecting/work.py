"""The work that faults interrupt: each piece imports what it needs, and then computes one answer again and again."""

import ctypes
import itertools
import threading

numbers_of_threads = (ctypes.c_int * PLACES).from_address(ADDRESS)
places = itertools.count()


def inside(work, *arguments):
    """Does work, during which the thread may fault."""
    place = next(places) % PLACES
    numbers_of_threads[place] = threading.get_native_id()
    try:
        return work(*arguments)
    finally:
        numbers_of_threads[place] = 0


def bare(times):
    import csv, datetime, decimal, email.message, hashlib, io, json, pickle, re, sqlite3, struct, textwrap, zlib
    import asyncio, collections, configparser, dataclasses, enum, logging, tempfile, uuid, xml.etree.ElementTree

    async def sums():
        return sum(await asyncio.gather(*(asyncio.sleep(0, n) for n in range(20))))

    @dataclasses.dataclass
    class Row:
        name: str
        value: int

    while times:
        times -= 1
        rows = [Row(f"name {n}", n * n) for n in range(60)]
        text = json.dumps([dataclasses.asdict(row) for row in rows])
        found = re.findall(r'"name (\d+)", "value": (\d+)', text)
        table = io.StringIO()
        csv.writer(table).writerows(found)
        database = sqlite3.connect(":memory:")
        database.execute("create table rows (name text, value integer)")
        database.executemany("insert into rows values (?, ?)", found)
        (total,) = database.execute("select sum(value) from rows").fetchone()
        database.close()
        root = xml.etree.ElementTree.fromstring("<rows>" + "".join(f"<row n='{n}'/>" for n, _ in found) + "</rows>")
        words = textwrap.wrap(" ".join(str(decimal.Decimal(n) / 7) for n in range(1, 40)), 30)
        when = datetime.datetime(2026, 1, 1) + datetime.timedelta(days=total % 1000)
        packed = zlib.compress(pickle.dumps((json.loads(text), words, when, struct.pack("<40d", *range(40)))))
        answer = (table.getvalue(), total, len(root), asyncio.run(sums()), pickle.loads(zlib.decompress(packed)))
        digest = hashlib.sha256(repr(answer).encode()).hexdigest()
    return digest


def threads(times):
    import queue

    def squares(numbers, results):
        while (number := numbers.get()) is not None:
            results.put(sum(n * n for n in range(number)))

    while times:
        times -= 1
        numbers, results = queue.Queue(), queue.Queue()
        workers = [threading.Thread(target=inside, args=(squares, numbers, results)) for _ in range(3)]
        for worker in workers:
            worker.start()
        for number in range(40):
            numbers.put(number * 10)
        for _ in workers:
            numbers.put(None)
        for worker in workers:
            worker.join()
        answer = sum(results.get() for _ in range(40))
    return str(answer)


def system(times):
    """Calls of the C library, of the loader and of the kernel."""
    import locale, os, subprocess, tempfile, time

    library = ctypes.CDLL(None)
    while times:
        times -= 1
        os.environ["HYDROZOA_TEST_INJECTED"] = str(times)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file")
            with open(path, "w") as file:
                for number in range(200):
                    print(number, file=file)
            ctypes.CDLL(None).fflush(None)
            with open(path) as file:
                answer = sum(int(line) for line in file)
        answer += len(time.strftime("%Y", time.localtime(0))) + len(locale.localeconv()) % 1
        answer += int(subprocess.run(["echo", "7"], capture_output=True).stdout)
        answer += library.abs(-1)
    return str(answer)


def numpy(times):
    import numpy

    while times:
        times -= 1
        matrix = numpy.random.default_rng(1).random((60, 60))
        parts = [matrix @ matrix.T, numpy.linalg.solve(matrix, numpy.ones(60)), numpy.fft.fft(matrix)]
        parts += [numpy.sort(matrix, axis=0), numpy.exp(matrix), numpy.cumsum(matrix)]
        answer = sum(float(abs(part).sum()) for part in parts)
    return repr(answer)


def torch(times):
    import torch

    torch.manual_seed(1)
    layers = torch.nn
    model = layers.Sequential(
        layers.Conv2d(3, 8, 3), layers.BatchNorm2d(8), layers.ReLU(), layers.Flatten(), layers.LazyLinear(4)
    ).eval()
    example = torch.ones(2, 3, 16, 16)
    while times:
        times -= 1
        with torch.no_grad():
            answer = model(example).sum()
    return repr(float(answer))


def for_ever(name, right):
    while True:
        answer = inside(globals()[name], 20)
        assert answer == right, f"{answer} is not {right}"
