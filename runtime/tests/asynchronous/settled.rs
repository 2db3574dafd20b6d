//! An interpreter whose event loop is idle is settled, and the loop goes on.

use crate::block_on;
use crate::pythons::each_pool_alone;
use hydrozoa::{Error, EventLoop, Handle, Interpreter, Settled, Task, Unsettled};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// A server, a timer that is due later, and work of all kinds.
const PROGRAM: &str = "
import asyncio, threading, time

async def echo(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()

async def serve():
    global server
    server = await asyncio.start_server(echo, '127.0.0.1', 0)
    return server.sockets[0].getsockname()[1]

async def sleep(seconds):
    begin = time.monotonic()
    await asyncio.sleep(seconds)
    return time.monotonic() - begin

async def from_thread():
    loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
    def call():
        time.sleep(0.01)
        loop.call_soon_threadsafe(future.set_result, 3)
    thread = threading.Thread(target=call)
    thread.start()
    result = await future
    await loop.run_in_executor(None, thread.join)
    return result

async def child():
    child = await asyncio.create_subprocess_exec('cat', stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    return (await child.communicate(b'meow'))[0].decode()
";

fn spawn<T>(
    events: &EventLoop,
    program: &Handle,
    function: &'static str,
    arguments: Vec<f64>,
) -> Task<T>
where
    T: for<'s> hydrozoa::FromPython<'s> + Send + 'static,
{
    let program = program.clone();
    events.spawn(move |session| {
        let function = program.attach(session)?.getattr(function)?;
        match arguments.first() {
            Some(one) => function.call((*one,)),
            None => function.call(()),
        }
    })
}

/// Settles it as soon as the loop's thread has left.
fn settle(interpreter: &Interpreter) -> hydrozoa::Result<Settled> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("settle");
    std::fs::create_dir_all(&directory).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match interpreter.settle(&directory) {
            Err(Error::Settle { reason: Unsettled::Visited { .. }, .. })
                if Instant::now() < until =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            outcome => return outcome,
        }
    }
}

/// A connection to the server of the interpreter.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(port: u16) -> Self {
        Self(BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap()))
    }

    fn asks(&mut self) {
        self.0.get_mut().write_all(b"hello\n").unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        assert_eq!(line, "HELLO\n");
    }
}

#[test]
fn an_interpreter_whose_loop_sleeps_is_settled_and_its_connections_and_timers_go_on() {
    each_pool_alone(1, |pool| {
        let interpreter = &pool.interpreters()[0];
        let events = interpreter.event_loop().unwrap();
        let program = interpreter.session().run(PROGRAM, "settled.py").unwrap().keep();
        let port = block_on(spawn::<u16>(&events, &program, "serve", vec![])).unwrap();
        let mut clients: Vec<_> = (0..20).map(|_| Client::connect(port)).collect();
        clients.iter_mut().for_each(Client::asks);
        let begin = Instant::now();
        let mut sleeping = spawn::<f64>(&events, &program, "sleep", vec![3.0]);

        let settled = settle(interpreter).unwrap();
        assert!(settled.written > 4 << 20, "{settled:?}");
        assert!(settled.anonymous * 4 < settled.memory, "{settled:?}");
        assert!(!sleeping.is_finished() || begin.elapsed() > Duration::from_secs(3));
        clients.iter_mut().for_each(Client::asks);
        let slept = block_on(&mut sleeping).unwrap();
        assert!((3.0..60.0).contains(&slept), "{slept}");
        Client::connect(port).asks();
        let again = settle(interpreter).unwrap();
        assert!(again.written < settled.written, "{again:?} after {settled:?}");

        clients.iter_mut().for_each(Client::asks);
        let text = block_on(spawn::<String>(&events, &program, "child", vec![]));
        assert_eq!(text.unwrap(), "meow");
        // The threads that wait for children end with them.
        settle_soon(interpreter);
        let number = block_on(spawn::<i64>(&events, &program, "from_thread", vec![]));
        assert_eq!(number.unwrap(), 3);
        // A thread of the default executor waits for more work.
        settle_soon(interpreter);
        clients.iter_mut().for_each(Client::asks);
    });
}

/// Settles it when threads of Python that run just now wait or have ended.
fn settle_soon(interpreter: &Interpreter) {
    let until = Instant::now() + Duration::from_secs(60);
    while let Err(error) = settle(interpreter) {
        assert!(Instant::now() < until, "{error:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
