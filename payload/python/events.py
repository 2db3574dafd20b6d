"""Coroutines that the host runs on an event loop of this interpreter, and futures of the host that coroutines await.

The host sends numbers to a loop: of tasks to start and to cancel, and of futures to poll again. It makes a descriptor readable,
for which it needs no GIL.

The interpreter's own loop runs on a thread of the host's. Its waits are the host's as well: they leave the interpreter (`runtime/src/thread/waits.rs`).
So an idle loop has no thread inside.
"""

import asyncio
import contextlib
import contextvars
import itertools
import sys
import threading
import weakref

# References to mailboxes by their loops. A loop keeps its mailbox, and that what its tasks wait for, which refers to the loop.
_mailboxes = weakref.WeakKeyDictionary()
_numbers = itertools.count()


class _Mailbox:
    """The host's messages to one event loop."""

    def __init__(self, number, descriptor, take):
        self.number = number
        self._descriptor = descriptor
        self._take = take
        # asyncio does not keep tasks alive: the futures that they wait for do.
        self._waiters = {}

    def attach(self, loop):
        """Has the loop read what comes, until it is closed. It keeps nothing of the caller's context."""
        contextvars.Context().run(loop.add_reader, self._descriptor, self._read)
        _mailboxes[loop] = weakref.ref(self)

    def _read(self):
        try:
            # The host's own work on this thread is done in here.
            letters = self._take()
        except (SystemError, SystemExit):
            self._refused()
            return
        if letters is None:
            return
        starts, cancels, wakes = letters
        with contextlib.suppress(SystemError, SystemExit):
            self._received(starts, cancels)
            for number in wakes:
                waiter = self._waiters.pop(number, None)
                if waiter is not None and not waiter.done():
                    waiter.set_result(None)

    def _refused(self):
        """The host takes no more calls when the interpreter begins to end."""

    def _received(self, starts, cancels):
        pass

    async def wake(self, number):
        """Waits until the host wants the future `number` to be polled again."""
        self._waiters[number] = waiter = asyncio.get_running_loop().create_future()
        try:
            await waiter
        finally:
            self._waiters.pop(number, None)


class Driven(_Mailbox):
    """The interpreter's own loop, which the host drives, with the mailbox of the host's coroutines."""

    def __init__(self, number, descriptor, take, make, done, loop):
        super().__init__(number, descriptor, take)
        self._make = make
        self._done = done
        # asyncio itself does not keep tasks alive.
        self._tasks = {}
        self._ends = False
        self._loop = asyncio.SelectorEventLoop() if loop is None else loop
        try:
            self.attach(self._loop)
        except BaseException:
            self._loop.close()
            raise

    def fileno(self):
        """The descriptor of epoll(7) by which the loop waits."""
        selector = getattr(self._loop, "_selector", None)
        if selector is not None:
            return selector.fileno()
        # uvloop's.
        return self._loop._get_backend_id()

    def begin(self, name):
        """The calling thread is the loop's from now on."""
        sys.settrace(threading.gettrace())
        sys.setprofile(threading.getprofile())
        threading.current_thread().name = name
        asyncio.set_event_loop(self._loop)

    def run(self):
        """Runs the loop until the interpreter has begun to end."""
        while not self._ends:
            try:
                # `loop.stop` of a task does not end it.
                self._loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                # A task that ends by these has them as its exception, and the loop raises them here too.
                continue

    def end(self):
        """Ends the loop. Python is finalized next: until then, coroutines can start threads and use executors."""
        loop = self._loop
        loop.remove_reader(self._descriptor)
        try:
            _cancel_all(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def close(self):
        """Closes a loop that no thread has driven."""
        self._loop.close()

    def _refused(self):
        # Once: uvloop notes each stop, and the next one would stop the loop's end.
        if not self._ends:
            self._ends = True
            self._loop.stop()

    def _received(self, starts, cancels):
        for number in starts:
            contextvars.Context().run(self._start, number)
        for number in cancels:
            if (task := self._tasks.get(number)) is not None:
                task.cancel()

    def _start(self, number):
        """Starts the coroutine that the host makes here, in a context of its own."""
        if (awaitable := self._make(number)) is None:
            return
        try:
            task = asyncio.ensure_future(awaitable)
        except Exception as error:
            task = asyncio.get_running_loop().create_future()
            task.set_exception(error)
        self._tasks[number] = task
        task.add_done_callback(lambda task: self._finish(number, task))

    def _finish(self, number, task):
        del self._tasks[number]
        try:
            self._done(number, task)
        except (SystemError, SystemExit):
            # The host's future says that the interpreter has ended. asyncio need not report an exception, too.
            task.cancelled() or task.exception()


def _cancel_all(loop):
    """Cancels all tasks and waits for them, as `asyncio.run` does."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    while pending := [task for task in tasks if not task.done()]:
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            loop.run_until_complete(asyncio.wait(pending))


async def awaitable(poll):
    """A coroutine over a future of the host, which it polls on the thread of the loop that runs it."""
    try:
        mailbox = _mailbox(poll)
        number = next(_numbers)
        while (result := poll(mailbox.number, number)) is None:
            await mailbox.wake(number)
        return result[0]
    finally:
        # A traceback may keep this frame. The host's future is dropped here.
        del poll


def _mailbox(opener):
    """The mailbox of the running loop."""
    loop = asyncio.get_running_loop()
    reference = _mailboxes.get(loop)
    mailbox = reference and reference()
    if mailbox is None:
        mailbox = _Mailbox(*opener())
        mailbox.attach(loop)
    return mailbox
