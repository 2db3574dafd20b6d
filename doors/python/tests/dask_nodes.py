"""Dask on interpreters: its local scheduler, and a cluster of two nodes, each a process with an executor. A node that dies loses no
result that was returned, and its tasks run on the other.
"""

import os
import signal
import subprocess
import sys
import time

import dask
import dask.array
import distributed
import numpy

import hydrozoa

NODE = """
import asyncio, sys
import distributed, hydrozoa

async def main():
    async with distributed.Worker(sys.argv[1], nthreads=2, executor=hydrozoa.Executor(2), name=sys.argv[2]) as worker:
        await worker.finished()

asyncio.run(main())
"""


def where(value):
    import sys

    return value * value, "_hydrozoa_worker" in sys.modules


def where_slowly(value):
    import time

    time.sleep(0.2)
    return where(value)


def total(array):
    return float(array.sum()), bool(array.flags.writeable)


def local():
    """Dask's local scheduler over an executor."""
    with hydrozoa.Executor(2) as executor:
        matrix = dask.array.random.default_rng(0).random((2000, 2000), chunks=500)
        assert numpy.array_equal((matrix @ matrix.T).sum(axis=0).compute(scheduler=executor),
                                 (matrix @ matrix.T).sum(axis=0).compute(scheduler="threads"))
        results = dask.compute(*[dask.delayed(where)(n) for n in range(50)], scheduler=executor)
        assert list(results) == [(n * n, True) for n in range(50)], results
    print("the local scheduler: equal to threads")


def cluster():
    scheduler = distributed.LocalCluster(n_workers=0, dashboard_address=None)
    nodes = [
        subprocess.Popen([sys.executable, "-c", NODE, scheduler.scheduler_address, f"node-{number}"]) for number in (1, 2)
    ]
    try:
        with distributed.Client(scheduler) as client:
            client.wait_for_workers(2)
            results = client.gather(client.map(where, range(200)))
            assert results == [(n * n, True) for n in range(200)]
            array = client.scatter(numpy.ones(1 << 20))
            assert client.submit(total, array).result()[0] == 1 << 20
            try:
                client.submit(int, "x").result()
            except ValueError as error:
                assert "invalid literal" in str(error)
            else:
                raise AssertionError("an exception is lost")
            kept = client.gather(client.map(where, range(1000, 1010)))
            pending = client.map(where_slowly, range(40))
            time.sleep(1)
            os.kill(nodes[0].pid, signal.SIGKILL)
            nodes[0].wait()
            assert client.gather(pending) == [(n * n, True) for n in range(40)]
            assert kept == [(n * n, True) for n in range(1000, 1010)]
            assert len(client.scheduler_info()["workers"]) == 1
        print("two nodes, one killed: all results are there")
    finally:
        for node in nodes:
            node.kill()
            node.wait()
        scheduler.close()


if __name__ == "__main__":
    local()
    cluster()
