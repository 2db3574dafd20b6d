"""gloo with another process and between threads, DDP, DataLoader with no workers, forked and spawned ones, shared memory"""

import os
import tempfile
import threading
import traceback
from datetime import timedelta

from common import FOLDER, randn

import children
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.utils.data import DataLoader


def gloo():
    """This interpreter is rank 0; rank 1 is a process that it spawns."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        path = os.path.join(folder, "store")
        other = multiprocessing.get_context("spawn").Process(target=children.other_rank, args=(path,))
        other.start()
        received, trained = children.collectives(0, path)
        other.join()
        assert other.exitcode == 0, other.exitcode
    return received, trained


def threaded_groups():
    """Two groups of one store, each in a thread."""
    store, results, failures = dist.HashStore(), [None, None], []

    def guarded(number):
        try:
            rank(number)
        except Exception:
            failures.append(traceback.format_exc())

    def rank(number):
        group = dist.ProcessGroupGloo(dist.PrefixStore("threads", store), number, 2, timedelta(seconds=120))
        total = torch.arange(4.0) + number
        group.allreduce([total]).wait()
        broadcast = torch.full((3,), float(number))
        group.broadcast(broadcast, 1).wait()
        results[number] = [total, broadcast]

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    return results


def loaded(workers, context, **options):
    loader = DataLoader(
        children.Squares(),
        batch_size=4,
        num_workers=workers,
        multiprocessing_context=context,
        generator=torch.Generator().manual_seed(3),
        shuffle=True,
        **options,
    )
    return [batch for _ in range(2) for batch in loader]


def shared():
    context = multiprocessing.get_context("spawn")
    tensor, queue = randn(8, seed=1).share_memory_(), context.Queue()
    process = context.Process(target=children.add_one, args=(queue, tensor))
    process.start()
    total = queue.get()
    process.join()
    return [tensor, total]


def work(tell):
    received, trained = gloo()
    tell("gloo", received)
    tell("DDP", trained)
    tell("gloo between threads", threaded_groups())
    tell("DataLoader", loaded(0, None))
    tell("DataLoader forked", loaded(2, "fork"))
    tell("DataLoader spawned", loaded(2, "spawn", persistent_workers=True))
    tell("DataLoader of a stream", list(DataLoader(children.Stream(), batch_size=3, num_workers=2, multiprocessing_context="fork")))
    tell("shared memory", shared())
