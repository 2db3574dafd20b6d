//! A worker's thread: its session, the calls that it runs, and what it frees of their results.

use super::assignments::{Begun, Turn};
use super::scheduler::Scheduler;
use crate::boundary::{Failure, Result, hz_status};
use crate::memory::{KeptMemory, hz_buffer};
use crate::queues::Companion;
use crate::values::hz_bytes;
use runtime::{
    Handle, Interpreter, InterruptHandle, Object, Pool, Positional, Session, ToArguments,
};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The stack of a worker's thread, as large as that of a process's first thread.
const STACK: usize = 8 << 20;

/// The arguments of a call.
pub(crate) struct Call {
    pub(crate) data: Vec<u8>,
    pub(crate) memory: Vec<KeptMemory>,
}

pub(crate) type Answer = Result<Returned>;

pub(crate) struct Returned {
    pub(crate) data: hz_bytes,
    pub(crate) buffers: Vec<hz_buffer>,
}

/// All workers of one function.
pub(crate) struct Team {
    pub(crate) scheduler: Scheduler<Call, Answer>,
    module: String,
    function: String,
    interrupts: Mutex<Vec<(usize, InterruptHandle)>>,
}

impl Team {
    pub(crate) fn new(module: &str, function: &str, most: usize) -> Self {
        let (module, function) = (module.to_owned(), function.to_owned());
        Self { scheduler: Scheduler::new(most), module, function, interrupts: Mutex::default() }
    }

    /// Starts the thread of a worker.
    pub(crate) fn start(
        self: &Arc<Self>,
        number: usize,
        pool: Pool,
        index: usize,
        name: &str,
    ) -> Result<()> {
        if !self.scheduler.arrive(number) {
            let message = format!("worker {number} does not exist, or was started before");
            return Err(Failure::argument(message));
        }
        let running = RunningWorker(self.clone());
        let thread = thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        let started = thread.spawn(move || running.0.work(number, pool, index));
        started.map(drop).map_err(|error| {
            let message = format!("the system gives no thread for a worker: {error}");
            Failure::Misuse(hz_status::HZ_ERROR_SYSTEM, message)
        })
    }

    /// Runs calls until there are no more.
    fn work(self: &Arc<Self>, number: usize, pool: Pool, index: usize) {
        let worker = catch_unwind(AssertUnwindSafe(|| {
            renew(&pool, index)?;
            WorkerSession::new(self, number, &pool, index)
        }));
        drop(pool);
        match worker.unwrap_or_else(|panic| Err(Failure::panicked(panic))) {
            Ok(worker) => {
                self.interrupts().push((number, worker.session.interrupt_handle()));
                while let Some(turn) = self.scheduler.next(number) {
                    match turn {
                        Turn::Tidy => worker.session.interpreter().drain(),
                        Turn::Run(Begun { job, call }) => {
                            let answer = catch_unwind(AssertUnwindSafe(|| worker.run(call)));
                            let answer =
                                answer.unwrap_or_else(|panic| Err(Failure::panicked(panic)));
                            let has_crashed = answer.as_ref().is_err_and(Failure::is_crash);
                            if has_crashed {
                                // Before anybody hears of it, who may submit the next call.
                                self.scheduler.lose(number, || Err(lost()));
                            }
                            self.scheduler.end(&job, answer);
                            if has_crashed {
                                break;
                            }
                        }
                    }
                }
                self.interrupts().retain(|(other, _)| *other != number);
            }
            Err(failure) => self.refuse(number, failure),
        }
    }

    /// The worker cannot run calls: its own ones fail, the first of them with the reason.
    fn refuse(&self, number: usize, failure: Failure) {
        let mut failure = Some(failure);
        while let Some(turn) = self.scheduler.next(number) {
            let Turn::Run(Begun { job, call }) = turn else { continue };
            drop(call);
            let reason = failure.take().unwrap_or_else(abandoned);
            self.scheduler.end(&job, Err(reason));
        }
    }

    /// Ends the calls that have not begun, and takes no others.
    pub(crate) fn abandon(&self) {
        self.scheduler.abandon(|| Err(abandoned()));
    }

    /// Interrupts the call that a worker runs. False if there is none.
    pub(crate) fn interrupt(&self, number: usize) -> bool {
        self.interrupts().iter().any(|(other, handle)| *other == number && handle.interrupt())
    }

    fn interrupts(&self) -> MutexGuard<'_, Vec<(usize, InterruptHandle)>> {
        self.interrupts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts another interpreter in the place of one that has crashed.
fn renew(pool: &Pool, index: usize) -> Result<()> {
    let crashed = pool.interpreters().get(index).is_some_and(Interpreter::has_crashed);
    if crashed {
        drop(pool.replace(index)?);
    }
    Ok(())
}

fn lost() -> Failure {
    let message = "the call did not begin: its worker's interpreter has crashed".to_owned();
    Failure::Misuse(hz_status::HZ_ERROR_CRASHED, message)
}

fn abandoned() -> Failure {
    let message = "the call did not begin: hz_workers_abandon".to_owned();
    Failure::Misuse(hz_status::HZ_ERROR_ENDED, message)
}

/// Says that the thread has ended, however it ends.
struct RunningWorker(Arc<Team>);

impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.0.scheduler.leave();
    }
}

/// The arguments of a call, as Python gets them.
struct Given<'a> {
    data: &'a [u8],
    views: &'a [Object<'a>],
}

impl ToArguments for Given<'_> {
    fn append_to<'b>(&'b self, arguments: &mut Positional<'_, 'b>) -> runtime::Result<()> {
        arguments.push(self.data)?;
        self.views.iter().try_for_each(|view| arguments.push(view))
    }
}

/// A worker's session, and the function in its interpreter.
struct WorkerSession {
    session: Session,
    function: Handle,
    team: Arc<Team>,
    number: usize,
}

impl WorkerSession {
    fn new(team: &Arc<Team>, number: usize, pool: &Pool, index: usize) -> Result<Self> {
        let session = pool.acquire_on(index)?;
        let function = session.with_gil(|| -> runtime::Result<_> {
            let module = session.import(&team.module)?;
            module.setattr("companion", session.class::<Companion>()?)?;
            Ok(module.getattr(&team.function)?.keep())
        })?;
        Ok(Self { session, function, team: team.clone(), number })
    }

    /// One turn of the GIL for all of it.
    fn run(&self, call: Call) -> Answer {
        self.session.with_gil(|| {
            let views = call.memory.iter().map(|memory| memory.to_python(&self.session));
            let views = views.collect::<runtime::Result<Vec<_>>>()?;
            // Python alone keeps it from here on.
            drop(call.memory);
            let given = Given { data: &call.data, views: &views };
            self.returned(&self.function.attach(&self.session)?.call(given)?)
        })
    }

    fn returned(&self, object: &Object<'_>) -> Answer {
        match object.extract::<Vec<u8>>() {
            Ok(data) => Ok(Returned { data: hz_bytes::new(data)?, buffers: Vec::new() }),
            Err(runtime::Error::Convert { .. }) => {
                let data = object.get_item(0)?.extract::<Vec<u8>>()?;
                let buffer = |index: usize| {
                    hz_buffer::of(&object.get_item(index)?, false, Some(self.tidier()))
                };
                let buffers = (1..object.len()?).map(buffer).collect::<Result<_>>()?;
                Ok(Returned { data: hz_bytes::new(data)?, buffers })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Its drop makes the worker free the objects of a result.
    fn tidier(&self) -> Box<dyn Any + Send + Sync> {
        let interpreter = self.session.interpreter().clone();
        Box::new(Tidier { interpreter, team: self.team.clone(), number: self.number })
    }
}

/// Frees memory that was given back without the interpreter's GIL.
struct Tidier {
    interpreter: Interpreter,
    team: Arc<Team>,
    number: usize,
}

impl Drop for Tidier {
    fn drop(&mut self) {
        if !self.team.scheduler.tidy(self.number) {
            // No worker enters the interpreter any more. This does not wait for long, since no calls run there.
            self.interpreter.drain();
        }
    }
}
