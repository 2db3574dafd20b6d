//! The loop's thread is one thread, sleeps outside, and asyncio does there what it does in plain python.

use crate::pythons::{builders, each_pool_alone};
use crate::reactors::Working;
use crate::{LONG, block_on};
use hydrozoa::{Error, EventLoop, Handle, Interpreter, Pool, Task};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Work of asyncio. Each coroutine returns text.
const PROGRAM: &str = "
import asyncio, ctypes, functools, os, signal, socket, sys, threading, time

local = threading.local()

async def identity():
    first = threading.get_ident(), getattr(local, 'seen', 0)
    local.seen = 1
    await asyncio.sleep(0.01)
    assert first[0] == threading.get_ident() and local.seen == 1
    thread = threading.current_thread()
    assert thread.ident == first[0] and thread.daemon and asyncio.get_event_loop() is asyncio.get_running_loop()
    return f'{first[0]} {thread.name}'

async def timers():
    loop, order, begin = asyncio.get_running_loop(), [], time.monotonic()
    for delay in (0.03, 0.01, 0.02):
        loop.call_later(delay, order.append, delay)
    # What a timer schedules is not late, though the loop has slept for another one.
    done = loop.create_future()
    loop.call_later(5, done.set_exception, TimeoutError())
    def soon():
        loop.call_soon(loop.call_later, 0.001, done.set_result, None)
    loop.call_later(0.04, soon)
    await done
    took = time.monotonic() - begin
    assert 0.041 <= took < 4, took
    return str(order)

async def from_threads():
    loop = asyncio.get_running_loop()
    def set_later(future):
        time.sleep(0.02)
        loop.call_soon_threadsafe(future.set_result, 5)
    future = loop.create_future()
    threading.Thread(target=set_later, args=(future,)).start()
    refused = []
    def misuse():
        time.sleep(0.02)
        assert loop.is_running()
        # Not `run_forever`: 3.13's first releases then take the loop for one that has ended.
        for wrong in (loop.close, functools.partial(loop.run_until_complete, loop.create_future())):
            try:
                wrong()
            except RuntimeError as error:
                refused.append(str(error))
        return asyncio.run_coroutine_threadsafe(asyncio.sleep(0.02, 7), loop).result()
    return f'{await future} {await loop.run_in_executor(None, misuse)} {refused}'

async def echo(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()

async def streams():
    server = await asyncio.start_server(echo, '127.0.0.1', 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    lines = []
    for line in (b'one', b'two'):
        writer.write(line + b'\\n')
        lines.append(await reader.readline())
        await asyncio.sleep(0.01)
    writer.close()
    server.close()
    return str(lines)

async def readers():
    loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
    one, other = socket.socketpair()
    loop.add_reader(one, lambda: future.done() or future.set_result(one.recv(9)))
    loop.call_later(0.01, other.send, b'readable')
    result = await future
    loop.remove_reader(one)
    one.close(), other.close()
    return str(result)

async def children():
    child = await asyncio.create_subprocess_exec('cat', stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    out, _ = await child.communicate(b'meow')
    stopped = await asyncio.create_subprocess_exec('sleep', '1000')
    stopped.terminate()
    assert await stopped.wait() == -signal.SIGTERM
    return f'{out} {child.returncode}'

async def signals():
    try:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)
    except (RuntimeError, ValueError) as error:
        return type(error).__name__

async def stops():
    loop = asyncio.get_running_loop()
    loop.stop()
    await asyncio.sleep(0)
    threading.Thread(target=loop.stop).start()
    await asyncio.sleep(0.02)
    for end in (KeyboardInterrupt, SystemExit):
        async def ends():
            raise end()
        task = loop.create_task(ends())
        try:
            await task
        except end:
            pass
        # One that reaches the thread while it sleeps outside.
        ident = ctypes.c_ulong(threading.get_ident())
        send = functools.partial(ctypes.pythonapi.PyThreadState_SetAsyncExc, ident, ctypes.py_object(end))
        threading.Timer(0.02, send).start()
        await asyncio.sleep(0.05)
    return 'goes on'

async def debug():
    loop, found = asyncio.get_running_loop(), []
    def misuse():
        try:
            loop.call_soon(print)
        except RuntimeError as error:
            found.append(str(error).split(' ')[0])
    loop.set_debug(True)
    try:
        await asyncio.sleep(0.01)
        thread = threading.Thread(target=misuse)
        thread.start()
        thread.join()
        return str(found)
    finally:
        loop.set_debug(False)

async def generators():
    async def numbers():
        try:
            yield 1
        finally:
            await asyncio.sleep(0.01)
            ended.set_result('ended')
    ended = asyncio.get_running_loop().create_future()
    one = numbers()
    await one.__anext__()
    del one
    return await ended

async def forks():
    child = os.fork()
    if child == 0:
        os._exit(7)
    await asyncio.sleep(0.01)
    return str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";

/// Their results, but for the first.
const RESULTS: [(&str, &str); 10] = [
    ("timers", "[0.01, 0.02, 0.03]"),
    (
        "from_threads",
        "5 7 ['Cannot close a running event loop', 'This event loop is already running']",
    ),
    ("streams", "[b'ONE\\n', b'TWO\\n']"),
    ("readers", "b'readable'"),
    ("children", "b'meow' 0"),
    ("signals", "RuntimeError"),
    ("stops", "goes on"),
    ("debug", "['Non-thread-safe']"),
    ("generators", "ended"),
    ("forks", "7"),
];

/// A loop, with [`PROGRAM`].
struct Loop {
    events: EventLoop,
    program: Handle,
}

impl Loop {
    fn of(pool: &Pool) -> Self {
        Self::by(&pool.interpreters()[0], Interpreter::event_loop)
    }

    fn by(
        interpreter: &Interpreter,
        start: impl FnOnce(&Interpreter) -> hydrozoa::Result<EventLoop>,
    ) -> Self {
        let program = interpreter.session().run(PROGRAM, "program.py").unwrap().keep();
        Self { events: start(interpreter).unwrap(), program }
    }

    fn run(&self, coroutine: &'static str) -> String {
        let program = self.program.clone();
        let task: Task<String> =
            self.events.spawn(move |session| program.attach(session)?.call_method(coroutine, ()));
        block_on(task).unwrap_or_else(|error| panic!("{coroutine}: {error:?}"))
    }
}

#[test]
fn a_loop_whose_thread_sleeps_outside_does_what_asyncio_s_does() {
    each_pool_alone(2, |pool| {
        let (jobs, working) = Working::new();
        let shared = |interpreter: &Interpreter| interpreter.event_loop_with(working);
        let loops = [Loop::of(&pool), Loop::by(&pool.interpreters()[1], shared)];
        for (index, own) in loops.iter().enumerate() {
            let identity = own.run("identity");
            let name = format!(" event loop of interpreter {index}");
            assert!(identity.ends_with(&name), "{identity}");
            for (coroutine, result) in RESULTS {
                assert_eq!(own.run(coroutine), result, "{coroutine}");
            }
            assert_eq!(own.run("identity"), identity);
        }
        drop(jobs);
    });
}

/// The time that the process's threads have run.
fn used() -> Duration {
    // SAFETY: an empty time, which the call fills.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        assert_eq!(libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time), 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

#[test]
fn an_idle_loop_uses_no_time() {
    each_pool_alone(1, |pool| {
        let own = Loop::of(&pool);
        own.run("streams");
        let program = own.program.clone();
        let _sleeps: Task<()> = own.events.spawn(move |session| {
            let asyncio = program.attach(session)?.getattr("asyncio")?;
            asyncio.call_method("sleep", (1000,))
        });
        thread::sleep(Duration::from_millis(100));
        let (before, begin) = (used(), Instant::now());
        thread::sleep(Duration::from_millis(500));
        let (used, elapsed) = (used() - before, begin.elapsed());
        assert!(used * 20 < elapsed, "{used:?} of {elapsed:?}");
    });
}

#[test]
fn the_policy_of_event_loops_does_not_choose_the_interpreter_s_own_loop() {
    each_pool_alone(1, |pool| {
        let code = "
import asyncio, warnings
class Policy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self):
        raise LookupError('no loop')
with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    asyncio.set_event_loop_policy(Policy())
";
        pool.acquire().unwrap().run(code, "policy.py").unwrap();
        assert_eq!(Loop::of(&pool).run("readers"), "b'readable'");
    });
}

#[test]
fn a_forked_child_ends_without_the_loop_s_thread() {
    each_pool_alone(1, |pool| {
        let own = Loop::of(&pool);
        own.run("timers");
        let session = pool.acquire().unwrap();
        // The loop's thread may be about to leave. It does not have the GIL when the process forks.
        // SAFETY: the child uses what a session of the calling thread needs, and leaves at once.
        let child = session.with_gil(|| unsafe { libc::fork() });
        if child == 0 {
            let works = session.eval("6 * 7").and_then(|product| product.extract::<i64>());
            drop((session, own, pool));
            // SAFETY: no precondition.
            unsafe { libc::_exit(i32::from(works.ok() != Some(42))) };
        }
        let mut status = 0;
        // SAFETY: the process's own child, and a number.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(own.run("readers"), "b'readable'");
    });
}

#[test]
fn a_contained_crash_resolves_the_futures_of_a_loop_that_sleeps_and_of_one_that_crashes() {
    alone(PATIENCE, || {
        let threads = || fs::read_dir("/proc/self/task").unwrap().count();
        for builder in builders(1) {
            for on_the_loop in [false, true] {
                let pool = builder.clone().contain_crashes(true).build().unwrap();
                let own = Loop::of(&pool);
                own.run("timers");
                let sleeps = || {
                    own.events.spawn::<(), _>(|session| {
                        session.import("asyncio")?.call_method("sleep", (1000,))
                    })
                };
                let sleeping = sleeps();
                own.run("readers");
                let crash = "__import__('ctypes').string_at(0)";
                let error = match on_the_loop {
                    false => pool.acquire().unwrap().eval(crash).map(drop),
                    true => block_on(own.events.spawn(move |session| session.eval(crash))),
                };
                assert!(matches!(error, Err(Error::Crashed { .. })), "{error:?}");
                let error = block_on(sleeping).unwrap_err();
                assert!(matches!(error, Error::Crashed { .. }), "{error:?}");
                let error = block_on(sleeps()).unwrap_err();
                assert!(matches!(error, Error::Crashed { .. }), "{error:?}");
                drop(own);
                pool.close(LONG).unwrap();
            }
            assert!(threads() < 20);
        }
    });
}
