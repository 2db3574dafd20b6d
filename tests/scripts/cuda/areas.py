"""An interpreter's part in the test of device memory. On the device that is main memory, the library of runtime.c counts the
uploads and delays queued work."""

import builtins
import ctypes
import os

import torch

REHEARSAL = os.environ.get("LD_PRELOAD")
if REHEARSAL:
    counts = ctypes.CDLL(REHEARSAL)
    counts.rehearsal_uploaded.restype = ctypes.c_size_t


def uploaded():
    """Bytes that were ever copied to the device. On a GPU: what this interpreter's libtorch has ever asked its allocator for,
    since a copy to the device begins with that."""
    if REHEARSAL:
        return counts.rehearsal_uploaded()
    return torch.cuda.memory_stats().get("requested_bytes.all.allocated", 0)


def delay():
    """Keeps a GPU's current stream busy for some 50 ms, so that work queued next has not run yet."""
    if not REHEARSAL:
        torch.cuda._sleep(100_000_000)


def allocated():
    """Bytes that tensors of this interpreter's libtorch hold on the device."""
    return torch.cuda.memory_allocated()


def occupied():
    """Bytes of the device that anybody has."""
    unused, total = torch.cuda.mem_get_info()
    return total - unused


def things():
    """Streams, events and blocks of pinned memory that anybody has."""
    return counts.rehearsal_things()


def use_and_keep():
    """Leaves 16 MiB, pinned memory, a stream and an event to objects that nothing ever frees."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tensor = torch.full((1 << 22,), 3.0, pin_memory=True).cuda(non_blocking=True)
        event = stream.record_event()
    for kept in tensor, stream, event:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def is_bounded(limit):
    """Whether a request beyond a limit raises torch's own error, and one within it does not, even after that error."""
    unused, total = torch.cuda.mem_get_info()
    assert unused <= total <= limit, (unused, total)
    kept = torch.empty(limit // 4, dtype=torch.uint8, device="cuda")
    try:
        torch.empty(limit, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        del kept
        torch.empty(limit // 2, dtype=torch.uint8, device="cuda")
        torch.cuda.empty_cache()
        return True
    return False


def take(size):
    """Takes so many bytes for a moment."""
    torch.empty(size, dtype=torch.uint8, device="cuda")
    torch.cuda.empty_cache()


def use_and_drop():
    """Leaves 64 MiB to the caching allocator."""
    torch.empty(1 << 24, device="cuda").copy_(torch.zeros(1 << 24))
    torch.cuda.synchronize()


def storages(model):
    """Address and size of each storage."""
    return {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in model.state_dict().values()
        if tensor.numel()
    }


def equal(model, plain):
    """Whether a model on the device has the weights of one in main memory."""
    pairs = zip(model.state_dict().values(), plain.state_dict().values(), strict=True)
    return all(a.device.type == "cuda" and torch.equal(a.cpu(), b) for a, b in pairs)


def begin_reading(model):
    """Queues a copy of a weight on a stream of its own, and waits for it nowhere."""
    weight = model[0].weight
    stream = torch.cuda.Stream()
    copy = torch.zeros(weight.shape, pin_memory=True)
    with torch.cuda.stream(stream):
        delay()
        copy.copy_(weight, non_blocking=True)
    builtins.reading = stream, copy


def end_reading(plain):
    stream, copy = builtins.reading
    del builtins.reading
    stream.synchronize()
    return torch.equal(copy, plain[0].weight)


def overwrite():
    """Takes the caching allocator's free blocks, and fills them."""
    noise = [torch.full((16, 16), 7.0).cuda() for _ in range(64)]
    torch.cuda.synchronize()
    return len(noise)


def filled_later(value):
    """A tensor whose filling is queued on a stream of its own, which stays this thread's current one."""
    source = torch.full((1000,), value, pin_memory=True)
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    builtins.source = source, stream
    delay()
    return torch.empty(1000, device="cuda").copy_(source, non_blocking=True)


def default_stream():
    torch.cuda.set_stream(torch.cuda.default_stream())


def other_stream():
    torch.cuda.set_stream(torch.cuda.Stream())


def all_are(tensor, value):
    return tensor.device.type == "cuda" and bool((tensor.cpu() == value).all())
