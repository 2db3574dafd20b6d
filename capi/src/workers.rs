//! Threads of the library's that run calls of one function, each in an interpreter.

use crate::boundary::{guarded, reported};
use crate::buffer::{hz_buffer, hz_memory, memory_at};
use crate::bytes::hz_bytes;
use crate::channel::Memory;
use crate::companion::Companion;
use crate::crew::Crew;
use crate::desk::{Begun, Turn};
use crate::error::hz_error;
use crate::failure::{Failure, Result};
use crate::job::{Job, Stage};
use crate::pointers::{array, copied, free, not_null, place, reference, reference_or, text, write};
use crate::pool::hz_pool;
use crate::status::hz_status;
use runtime::{
    Handle, Interpreter, InterruptHandle, Object, Pool, Positional, Session, ToArguments,
};
use std::any::Any;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The stack of a worker's thread, as the first thread of a process has it.
const STACK: usize = 8 << 20;

/// Threads of the library's that run calls, each in an interpreter of its own. All calls are of one Python function,
/// which takes bytes, and memoryviews behind them, and returns bytes, or a tuple of bytes and objects with memory.
///
/// Calls wait in one queue. Their results wait until somebody asks for them: no call needs a thread of the program's
/// until then.
pub struct hz_workers {
    crew: Arc<Crew<Call, Answer>>,
    module: String,
    function: String,
    interrupts: Arc<Mutex<Vec<(usize, InterruptHandle)>>>,
}

/// A call that was queued.
pub struct hz_job {
    job: Arc<Job<Call, Answer>>,
    crew: Arc<Crew<Call, Answer>>,
}

/// What has become of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hz_stage {
    /// It has not begun.
    HZ_STAGE_QUEUED = 0,
    /// A worker runs it, or starts for it.
    HZ_STAGE_RUNNING = 1,
    /// Its result is there.
    HZ_STAGE_ENDED = 2,
    /// It never runs.
    HZ_STAGE_CANCELLED = 3,
}

/// What a call has returned. It lives as long as its job.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hz_answer {
    /// The bytes.
    pub data: *const c_char,
    pub len: usize,
    /// How many objects with memory there are beside them: hz_job_buffer.
    pub buffers: usize,
}

/// What is called with.
struct Call {
    data: Vec<u8>,
    memory: Vec<Memory>,
}

type Answer = Result<Returned>;

struct Returned {
    data: hz_bytes,
    buffers: Vec<hz_buffer>,
}

/// The arguments of a call.
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

/// A worker's place: a session, and the function in its interpreter.
struct Post {
    session: Session,
    function: Handle,
    crew: Arc<Crew<Call, Answer>>,
    number: usize,
}

impl Post {
    fn new(begins: &Begins, number: usize, pool: &Pool, index: usize) -> Result<Self> {
        let Begins { crew, module, function, .. } = begins;
        let session = pool.acquire_on(index)?;
        let function = session.with_gil(|| -> runtime::Result<_> {
            let module = session.import(module)?;
            module.setattr("companion", session.class::<Companion>()?)?;
            Ok(module.getattr(function)?.keep())
        })?;
        Ok(Self { session, function, crew: crew.clone(), number })
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

    /// Its drop has what a result had freed.
    fn tidier(&self) -> Box<dyn Any + Send + Sync> {
        let interpreter = self.session.interpreter().clone();
        Box::new(Tidier { interpreter, crew: self.crew.clone(), number: self.number })
    }
}

/// Has memory freed that was given back without the interpreter's GIL.
struct Tidier {
    interpreter: Interpreter,
    crew: Arc<Crew<Call, Answer>>,
    number: usize,
}

impl Drop for Tidier {
    fn drop(&mut self) {
        if !self.crew.tidy(self.number) {
            // No worker enters the interpreter any more. Nobody waits for long: it has no calls.
            self.interpreter.drain();
        }
    }
}

/// Runs calls until there are no more.
fn work(workers: &Begins, number: usize, pool: Pool, index: usize) {
    let post = catch_unwind(AssertUnwindSafe(|| Post::new(workers, number, &pool, index)));
    drop(pool);
    match post.unwrap_or_else(|panic| Err(Failure::panicked(panic))) {
        Ok(post) => {
            let interrupts = || workers.interrupts.lock().unwrap_or_else(PoisonError::into_inner);
            interrupts().push((number, post.session.interrupt_handle()));
            while let Some(turn) = workers.crew.next(number) {
                match turn {
                    Turn::Tidy => post.session.interpreter().drain(),
                    Turn::Run(Begun { job, call }) => {
                        let answer = catch_unwind(AssertUnwindSafe(|| post.run(call)));
                        let answer = answer.unwrap_or_else(|panic| Err(Failure::panicked(panic)));
                        workers.crew.end(&job, answer);
                    }
                }
            }
            interrupts().retain(|(other, _)| *other != number);
        }
        Err(failure) => workers.refuse(number, failure),
    }
}

/// What a worker's thread has.
struct Begins {
    crew: Arc<Crew<Call, Answer>>,
    module: String,
    function: String,
    interrupts: Arc<Mutex<Vec<(usize, InterruptHandle)>>>,
}

impl Begins {
    /// The worker cannot run calls: its own ones fail, the first of them with the reason.
    fn refuse(&self, number: usize, failure: Failure) {
        let mut failure = Some(failure);
        while let Some(turn) = self.crew.next(number) {
            let Turn::Run(Begun { job, call }) = turn else { continue };
            drop(call);
            let reason = failure.take().unwrap_or_else(abandoned);
            self.crew.end(&job, Err(reason));
        }
    }
}

/// Says that the thread has ended, however it ends.
struct Present(Arc<Crew<Call, Answer>>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.leave();
    }
}

fn abandoned() -> Failure {
    let message = "the call did not begin: hz_workers_abandon".to_owned();
    Failure::Misuse(hz_status::HZ_ERROR_ENDED, message)
}

/// Workers for calls of a function. `module` and `function` are its names in the interpreters. The caller owns
/// `workers`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_new(
    module: *const c_char,
    function: *const c_char,
    workers: *mut *mut hz_workers,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(workers, "workers")?;
            out.put(hz_workers {
                crew: Arc::new(Crew::new()),
                module: text(module, "module")?.to_owned(),
                function: text(function, "function")?.to_owned(),
                interrupts: Arc::default(),
            });
            Ok(())
        })
    }
}

/// A new worker, whose number is written to `number`: 0, 1 and so on. If calls wait, the first of them begins: it runs when
/// this worker is open, or another one is free. hz_workers_start starts its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_enlist(
    workers: *const hz_workers,
    number: *mut usize,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let workers = reference(workers, "workers")?;
            not_null(number, "number")?;
            write(number, "number", workers.crew.enlist())
        })
    }
}

/// Has hz_workers_collect name UINT64_MAX, which is no tag, when a call was submitted that no idle worker will take at once,
/// until there are `most` workers. hz_workers_enlist helps then. So one thread starts all workers, and those that submit do
/// not. 0 is the default, and names nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_recruit(workers: *const hz_workers, most: usize) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(workers, (), |workers| workers.crew.recruit(most)) }
}

/// Starts the thread of a worker, with a session on the interpreter at `index` of the pool. The function's module gets what
/// hz_session_companion gives, as `companion`. The worker runs calls that
/// are its own, and once hz_workers_open was called those that are for any worker. If the interpreter cannot be used,
/// its own calls fail and say why.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_start(
    workers: *const hz_workers,
    number: usize,
    pool: *const hz_pool,
    index: usize,
    name: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let workers = reference(workers, "workers")?;
            let pool = reference(pool, "pool")?.0.clone();
            let name = text(name, "name")?.to_owned();
            let begins = Begins {
                crew: workers.crew.clone(),
                module: workers.module.clone(),
                function: workers.function.clone(),
                interrupts: workers.interrupts.clone(),
            };
            if !workers.crew.arrive(number) {
                let message = format!("there is no worker {number} that was not started");
                return Err(Failure::argument(message));
            }
            let present = Present(workers.crew.clone());
            let thread = thread::Builder::new().name(name).stack_size(STACK);
            let started = thread.spawn(move || {
                work(&begins, number, pool, index);
                drop(begins);
                drop(present);
            });
            started.map(drop).map_err(|error| {
                let message = format!("the system gives no thread for a worker: {error}");
                Failure::Misuse(hz_status::HZ_ERROR_SYSTEM, message)
            })
        })
    }
}

/// From now on the worker takes calls that are for any worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_open(workers: *const hz_workers, number: usize) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(workers, (), |workers| workers.crew.open(number)) }
}

/// Whether calls wait that no idle worker will take at once, so that another worker could help. False for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_are_few(workers: *const hz_workers) -> bool {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(workers, false, |workers| workers.crew.lacks_workers()) }
}

/// Queues a call with `len` bytes at `data`, which are copied, and `memory_count` pieces of memory, which are not, and are
/// given back also if this fails. It is
/// for the worker with the number `worker`, or for any if that is SIZE_MAX. `tag` is what hz_workers_collect calls it.
/// HZ_ERROR_ENDED says that the workers were closed. The caller owns `job`, which is written before the call begins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_submit(
    workers: *const hz_workers,
    worker: usize,
    tag: u64,
    data: *const c_char,
    len: usize,
    memory: *const hz_memory,
    memory_count: usize,
    job: *mut *mut hz_job,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            // Before anything can fail: it is given back then.
            let pieces = array(memory, memory_count, "memory")?;
            let memory = pieces.iter().map(|piece| Memory::lent(piece)).collect();
            let out = place(job, "job")?;
            let workers = reference(workers, "workers")?;
            let data = copied(array(data.cast::<u8>(), len, "data")?)?;
            for piece in pieces {
                memory_at(piece.data, piece.len)?;
            }
            let call = Call { data, memory };
            let worker = (worker != usize::MAX).then_some(worker);
            let (crew, job) = (&workers.crew, Arc::new(Job::new(tag, call)));
            let put = || out.put(hz_job { job: job.clone(), crew: crew.clone() });
            if crew.submit(worker, &job, put) {
                return Ok(());
            }
            let message = "the workers were closed, or there is no such worker".to_owned();
            Err(Failure::Misuse(hz_status::HZ_ERROR_ENDED, message))
        })
    }
}

/// Waits for calls whose results are there and that nobody else looks for, and writes the tags of at most `capacity` of
/// them to `tags`. How many. 0 says that the workers were closed, and that all threads have ended. Each tag is written once,
/// whichever thread calls this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_collect(
    workers: *const hz_workers,
    tags: *mut u64,
    capacity: usize,
) -> usize {
    if tags.is_null() {
        return 0;
    }
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        let tags = std::slice::from_raw_parts_mut(tags, capacity);
        reference_or(workers, 0, |workers| workers.crew.collect(tags))
    }
}

/// Interrupts the call that a worker runs, as hz_interrupt_handle_interrupt. True if there was one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_interrupt(workers: *const hz_workers, number: usize) -> bool {
    let interrupt = |workers: &hz_workers| {
        let handles = workers.interrupts.lock().unwrap_or_else(PoisonError::into_inner);
        handles.iter().any(|(other, handle)| *other == number && handle.interrupt())
    };
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(workers, false, interrupt) }
}

/// No further calls: what is queued runs, and then the threads end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_close(workers: *const hz_workers) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(workers, (), |workers| workers.crew.close()) }
}

/// The same, and calls that have not begun, or wait for a worker to open, end with HZ_ERROR_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_abandon(workers: *const hz_workers) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(workers, (), |workers| workers.crew.abandon(|| Err(abandoned()))) }
}

/// Closes the workers and gives them up. NULL is allowed. It waits for nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_free(workers: *mut hz_workers) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        reference_or(workers, (), |workers| workers.crew.close());
        free(workers);
    }
}

/// What has become of a call. HZ_STAGE_CANCELLED for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_job_stage(job: *const hz_job) -> hz_stage {
    let stage = |job: &hz_job| match job.job.stage() {
        Stage::Queued => hz_stage::HZ_STAGE_QUEUED,
        Stage::Running => hz_stage::HZ_STAGE_RUNNING,
        Stage::Ended | Stage::Claimed => hz_stage::HZ_STAGE_ENDED,
        Stage::Cancelled => hz_stage::HZ_STAGE_CANCELLED,
    };
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(job, hz_stage::HZ_STAGE_CANCELLED, stage) }
}

/// Takes a call out of the queue. True if it never runs; false if it has begun. Its memory is given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_job_cancel(job: *const hz_job) -> bool {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(job, false, |job| job.job.cancel()) }
}

/// Looks for the result for so many microseconds, without sleep: for calls that are short. True if the result is there
/// and the caller's: then no other call of this returns true, and hz_workers_collect does not name the call, unless it
/// has done so before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_job_claim(job: *const hz_job, microseconds: u64) -> bool {
    let most = Duration::from_micros(microseconds);
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(job, false, |job| job.job.wait(most)) }
}

/// Has hz_workers_collect name a call that was claimed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_job_give_back(job: *const hz_job) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(job, (), |job| job.crew.give_back(&job.job)) }
}

/// What a call that has ended has returned, or its error. HZ_ERROR_BUSY says that it has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_job_answer(
    job: *const hz_job,
    answer: *mut hz_answer,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        if let Some(failure) = job.as_ref().and_then(hz_job::failure) {
            return reported(error, failure);
        }
        guarded(error, || {
            let Returned { data, buffers } = reference(job, "job")?.returned()?;
            let (data, len) = data.parts();
            write(answer, "answer", hz_answer { data, len, buffers: buffers.len() })
        })
    }
}

/// The memory of an object that a call has returned beside its bytes: `index` counts from 0. It is given back when the job and
/// each buffer of it have been freed. The caller owns `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_job_buffer(
    job: *const hz_job,
    index: usize,
    buffer: *mut *mut hz_buffer,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out = place(buffer, "buffer")?;
            let buffers = &reference(job, "job")?.returned()?.buffers;
            let none = || Failure::argument(format!("the call has {} buffers", buffers.len()));
            out.put(buffers.get(index).ok_or_else(none)?.clone());
            Ok(())
        })
    }
}

impl hz_job {
    fn failure(&self) -> Option<&Failure> {
        self.job.result()?.as_ref().err()
    }

    fn returned(&self) -> Result<&Returned> {
        self.job.result().and_then(|answer| answer.as_ref().ok()).ok_or_else(|| {
            let message = "the call has returned nothing, or has not ended".to_owned();
            Failure::Misuse(hz_status::HZ_ERROR_BUSY, message)
        })
    }
}

/// Gives a call up, which goes on. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_job_free(job: *mut hz_job) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { free(job) }
}
