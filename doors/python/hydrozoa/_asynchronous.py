"""A map for coroutines."""

import asyncio
import collections


async def results(executor, function, iterables, limit):
    """The results in order. At most `limit` calls have been submitted and not yielded."""
    waiting = collections.deque()
    try:
        async for row in _rows(iterables):
            waiting.append(asyncio.wrap_future(executor.submit(function, *row)))
            if len(waiting) == limit:
                yield await waiting.popleft()
        while waiting:
            yield await waiting.popleft()
    finally:
        for future in waiting:
            future.cancel()


async def _rows(iterables):
    """As zip, for iterables of both kinds."""
    iterators = [aiter(each) if hasattr(each, "__aiter__") else _of_iterable(each) for each in iterables]
    while iterators:
        row = []
        for iterator in iterators:
            try:
                row.append(await anext(iterator))
            except StopAsyncIteration:
                return
        yield row


async def _of_iterable(iterable):
    for item in iterable:
        yield item
