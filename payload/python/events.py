"""Coroutines that the host runs on an event loop of this interpreter, and futures of the host that coroutines await.

The host sends numbers to a loop: of tasks to start and to cancel, and of futures to poll again. It makes a descriptor readable,
for which it needs no GIL.

The interpreter's own loop sleeps outside of the interpreter. A thread of the host runs its turns (`Driven.turn`): a turn ends where
asyncio's loop would wait in its selector for longer than a moment. The host then waits for the selector's descriptor, and for the loop's next timer, without
the GIL and without a thread in the interpreter.
"""

import asyncio
import contextlib
import contextvars
import itertools
import selectors
import sys
import threading
import time
import weakref

# References to mailboxes by their loops. A loop keeps its mailbox, and that what its tasks wait for, which refers to the loop.
_mailboxes = weakref.WeakKeyDictionary()
_numbers = itertools.count()

# Seconds that a turn takes at most, where it has nothing to do at some moment: then the interpreter may be settled.
_TURN = 1
# Seconds that a turn takes, where its thread has other work.
_SHARE = 0.002


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

    def _read(self, *silently):
        try:
            # The host's own work on this thread is done in here.
            letters = self._take(*silently)
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


class _WouldSleep(BaseException):
    """The loop has nothing to do. It leaves `run_forever`, and no task ever sees it."""


class _Selector(selectors.EpollSelector):
    """A selector that ends the loop's turn in place of a long wait.

    An exception ends it at this very place, as `loop.stop` would not: behind the selector, the loop still runs timers that
    are due by then, and what they schedule would wait for as long as was noted before (`BaseEventLoop._run_once`).
    """

    # For how long it waits here: seconds.
    moment = 0
    # Whether a turn ends in time whatever there is to do.
    shares = False
    # For how long the loop would sleep: seconds, or None.
    pause = None
    # Whether it waits here nevertheless.
    waits = False
    # When the turn shall end, although something comes in every few milliseconds.
    end_of_turn = 0

    def select(self, timeout=None):
        is_ready = timeout is not None and timeout <= 0
        if self.waits or (is_ready and not self.shares):
            return super().select(timeout)
        if asyncio.current_task() is not None:
            # A loop that a task runs inside of this one (nest_asyncio). Its turn ends with the task's.
            return super().select(timeout)
        now = time.monotonic()
        if self.shares and now >= self.end_of_turn:
            self.pause = 0
            raise _WouldSleep
        if is_ready:
            return super().select(timeout)
        moment = self.moment if now < self.end_of_turn else 0
        if timeout is not None and timeout <= moment:
            return super().select(timeout)
        if ready := super().select(moment):
            return ready
        self.pause = None if timeout is None else max(0, now + timeout - time.monotonic())
        raise _WouldSleep


class _Loop(asyncio.SelectorEventLoop):
    """asyncio's own loop. To other threads it runs while it sleeps, too: they can neither run nor close it."""

    def __init__(self, selector):
        self.thread = threading.get_ident()
        super().__init__(selector)

    def is_running(self):
        if threading.get_ident() == self.thread:
            return super().is_running()
        return not self.is_closed()


class Driven(_Mailbox):
    """The interpreter's own loop, which the host drives, with the mailbox of the host's coroutines."""

    def __init__(self, number, descriptor, take, make, done, moment):
        super().__init__(number, descriptor, take)
        self._make = make
        self._done = done
        # asyncio itself does not keep tasks alive.
        self._tasks = {}
        self._ends = False
        self._selector = _Selector()
        self._selector.moment = moment
        # The host has other work for a thread that waits for no moment.
        self._selector.shares = moment == 0
        self._length = _TURN if moment else _SHARE
        self._loop = _Loop(self._selector)
        try:
            self.attach(self._loop)
        except BaseException:
            self._loop.close()
            raise

    def fileno(self):
        """The descriptor that is readable while the loop has something to do."""
        return self._selector.fileno()

    def begin(self, name):
        """The calling thread is the loop's from now on."""
        sys.settrace(threading.gettrace())
        sys.setprofile(threading.getprofile())
        threading.current_thread().name = name
        self._loop.thread = threading.get_ident()
        asyncio.set_event_loop(self._loop)

    def turn(self, has_letters):
        """Runs what is ready, and takes letters of which the descriptor does not tell. Returns for how many seconds the loop would
        sleep then, `None` for ever, or a negative number when the interpreter has begun to end."""
        if has_letters:
            contextvars.Context().run(self._read_silently)
        self._selector.end_of_turn = time.monotonic() + self._length
        while not self._ends:
            try:
                self._loop.run_forever()
            except _WouldSleep:
                return self._selector.pause
            except (KeyboardInterrupt, SystemExit):
                # A task that ends by these has them as its exception, and asyncio raises them here too.
                continue
        return -1

    def _read_silently(self):
        # As a callback of the loop would, without a round of the loop for it.
        asyncio._set_running_loop(self._loop)
        try:
            self._read(True)
        finally:
            asyncio._set_running_loop(None)

    def end(self):
        """Ends the loop. Python is finalized next: until then, coroutines can start threads and use executors."""
        loop = self._loop
        self._selector.waits = True
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
