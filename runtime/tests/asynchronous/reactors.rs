//! A loop whose thread does the host's work while the loop waits.

use crate::pythons::pools;
use crate::{LONG, block_on};
use hydrozoa::{Error, EventLoop, Reactor, Task};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

type Job = Box<dyn FnOnce() + Send>;

/// A host that has jobs for the thread. It looks for them every millisecond, and polls by edges.
pub(crate) struct Working {
    jobs: Receiver<Job>,
    poll: Option<OwnedFd>,
}

impl Working {
    pub(crate) fn new() -> (Sender<Job>, Self) {
        let (sender, jobs) = channel();
        (sender, Self { jobs, poll: None })
    }
}

impl Reactor for Working {
    fn wait(&mut self, ready: BorrowedFd<'_>, limit: Option<Duration>) {
        let until = limit.map(|limit| Instant::now() + limit);
        let poll = self.poll.get_or_insert_with(|| edges(ready));
        loop {
            if let Ok(job) = self.jobs.try_recv() {
                return job();
            }
            let is_over = until.is_some_and(|until| Instant::now() >= until);
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            // SAFETY: a descriptor of epoll, and room for one event.
            let count =
                unsafe { libc::epoll_wait(poll.as_raw_fd(), &mut event, 1, i32::from(!is_over)) };
            if count != 0 || is_over {
                return;
            }
        }
    }
}

/// A descriptor of epoll that tells once what comes.
fn edges(of: BorrowedFd<'_>) -> OwnedFd {
    let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
    // SAFETY: epoll_create1 gives a new descriptor, or one that the next call refuses, and both are open there.
    unsafe {
        let poll = OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC));
        let added = libc::EPOLL_CTL_ADD;
        assert_eq!(libc::epoll_ctl(poll.as_raw_fd(), added, of.as_raw_fd(), &mut event), 0);
        poll
    }
}

/// The thread on which a job of the reactor runs.
fn where_jobs_run(jobs: &Sender<Job>) -> ThreadId {
    let (sender, receiver) = channel();
    jobs.send(Box::new(move || sender.send(thread::current().id()).unwrap())).unwrap();
    receiver.recv_timeout(LONG).expect("the reactor waits")
}

/// The thread on which a loop calls functions.
fn where_calls_run(events: &EventLoop) -> ThreadId {
    let (sender, receiver) = channel();
    events.call_soon(move |_| sender.send(thread::current().id()).unwrap());
    receiver.recv_timeout(LONG).expect("the loop goes on")
}

const BUSY: &str = "
import asyncio
is_told = False

async def busy():
    turns = 0
    while not is_told:
        await asyncio.sleep(0)
        turns += 1
    return turns
";

#[test]
fn the_host_works_on_the_loop_s_thread_and_calls_from_there() {
    each_new(|events, jobs| {
        assert_eq!(where_jobs_run(jobs), where_calls_run(events));

        // A call from within the wait, of which the descriptor does not tell.
        let (sender, receiver) = channel();
        let calling = events.clone();
        jobs.send(Box::new(move || calling.call_soon(move |_| sender.send(()).unwrap()))).unwrap();
        receiver.recv_timeout(LONG).expect("the next turn makes the call");

        // And one from within a turn.
        let (sender, receiver) = channel();
        let calling = events.clone();
        events.call_soon(move |_| calling.call_soon(move |_| sender.send(()).unwrap()));
        receiver.recv_timeout(LONG).expect("the loop goes on");
    });
}

#[test]
fn a_loop_that_always_has_something_to_do_lets_the_host_work() {
    each_new(|events, jobs| {
        let busy: Task<u64> =
            events.spawn(|session| session.import("busy_code")?.call_method("busy", ()));
        while where_calls_run(events) != where_jobs_run(jobs) {}
        let calling = events.clone();
        let tell = move || {
            calling.call_soon(|session| {
                let busy = session.import("busy_code").unwrap();
                busy.setattr("is_told", true).unwrap();
            });
        };
        jobs.send(Box::new(tell)).unwrap();
        assert!(block_on(busy).unwrap() > 0);
    });
}

#[test]
fn a_reactor_that_panics_ends_the_loop() {
    each_new(|events, jobs| {
        let wait: Task<()> =
            events.spawn(|session| session.import("asyncio")?.call_method("sleep", (1e6,)));
        jobs.send(Box::new(|| panic!("a defect of the host"))).unwrap();
        let ended = block_on(wait);
        assert!(matches!(ended, Err(Error::Ended { .. })), "{ended:?}");
        let refused: Task<()> = events.spawn(|session| session.none());
        assert!(matches!(block_on(refused), Err(Error::Ended { .. })));
    });
}

#[test]
fn a_loop_may_be_of_a_class_of_the_program_s_and_one_that_cannot_be_had_is_an_error() {
    const CODE: &str = "
import asyncio
class Own(asyncio.SelectorEventLoop):
    def __bool__(self):
        return False
class Without:
    def add_reader(self, *words):
        pass
    def close(self):
        pass
";
    for pool in pools(1) {
        let interpreter = &pool.interpreters()[0];
        let code = interpreter.session().run(CODE, "own.py").unwrap().keep();
        let of = |class: &str| {
            interpreter.event_loop_of(|session| code.attach(session)?.call_method(class, ()), None)
        };
        for (class, error) in [("Without", "_get_backend_id"), ("Missing", "Missing")] {
            let text = of(class).unwrap_err().to_string();
            assert!(text.contains(error), "{text}");
        }
        let events = of("Own").unwrap();
        let (sender, receiver) = channel();
        events.call_soon(move |session| {
            let own =
                session.import("asyncio").and_then(|it| it.call_method("get_running_loop", ()));
            sender.send(own.unwrap().type_name()).unwrap();
        });
        assert_eq!(receiver.recv_timeout(LONG).unwrap(), "Own");
    }
}

/// A loop with a reactor, on each version.
fn each_new(test: impl Fn(&EventLoop, &Sender<Job>)) {
    for pool in pools(1) {
        pool.register_module("busy_code", BUSY).unwrap();
        let (jobs, working) = Working::new();
        let events = pool.interpreters()[0].event_loop_with(working).unwrap();
        test(&events, &jobs);
    }
}
