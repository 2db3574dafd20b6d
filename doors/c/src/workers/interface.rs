//! Threads of the library's that run calls of one function, each in an interpreter.

use super::job::{Job, Stage};
use super::thread::{Answer, Call, Returned, Team};
use crate::boundary::{
    Failure, Result, array, copied, fill, free, given, guarded, hz_error, hz_status, not_null,
    reported, slot, text, write,
};
use crate::interpreters::hz_pool;
use crate::memory::{KeptMemory, hz_buffer, hz_memory, memory_at};
use std::ffi::c_char;
use std::sync::Arc;
use std::time::Duration;

/// Threads of the library that run calls, each in an interpreter of its own. All calls are of one Python function,
/// which takes bytes, and memoryviews behind them, and returns bytes, or a tuple of bytes and objects with memory.
///
/// Calls wait in one queue. Their results wait until somebody asks for them: until then no call needs a thread of the
/// program.
pub struct hz_workers(Arc<Team>);

/// A call that was queued.
pub struct hz_job {
    job: Arc<Job<Call, Answer>>,
    team: Arc<Team>,
}

/// How far a call has come.
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

/// The return value of a call. It lives as long as its job.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hz_answer {
    /// The bytes.
    pub data: *const c_char,
    pub len: usize,
    /// How many objects with memory there are beside them: hz_job_buffer.
    pub buffers: usize,
}

/// Workers for calls of a function. `module` and `function` are its names in the interpreters. The caller owns
/// `workers`.
///
/// hz_workers_collect returns UINT64_MAX in place of a tag when a call was submitted that no idle worker will take at once,
/// until there are `most` workers. hz_workers_enlist helps then. So one thread starts all workers, and the submitting threads
/// do not. With 0 it never does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_new(
    module: *const c_char,
    function: *const c_char,
    most: usize,
    workers: *mut *mut hz_workers,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(workers, "workers", || {
            let (module, function) = (text(module, "module")?, text(function, "function")?);
            Ok(hz_workers(Arc::new(Team::new(module, function, most))))
        })
    })
}

/// A new worker, whose number is written to `number`: 0, 1 and so on. If calls wait, the first of them begins: it runs when
/// this worker is open, or another one is free. hz_workers_start starts its thread. With `only_if_few` there is no new worker,
/// and `number` is SIZE_MAX, unless calls wait that no idle worker will take at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_enlist(
    workers: Option<&hz_workers>,
    only_if_few: bool,
    number: *mut usize,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        not_null(number, "number")?;
        let enlisted = given(workers, "workers")?.0.scheduler.enlist(only_if_few);
        write(number, "number", enlisted.unwrap_or(usize::MAX))
    })
}

/// Starts the thread of a worker, with a session on the interpreter at `index` of the pool. The function's module gets the
/// object of hz_session_companion, as `companion`. The worker runs its own calls, and after hz_workers_open also those for
/// any worker. If the interpreter cannot be used, its own calls fail and say why. If the interpreter at `index` has crashed, another one
/// is put in its place first.
///
/// If the interpreter crashes in a call (hz_builder_contain_crashes), that call and the worker's own ones fail with
/// HZ_ERROR_CRASHED, and the worker ends: hz_workers_lost. A call that waits for it to open runs when another worker is free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_start(
    workers: Option<&hz_workers>,
    number: usize,
    pool: Option<&hz_pool>,
    index: usize,
    name: *const c_char,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let (workers, pool) = (given(workers, "workers")?, given(pool, "pool")?);
        workers.0.start(number, pool.0.clone(), index, text(name, "name")?)
    })
}

/// Writes the number of a worker that has ended since its interpreter has crashed to `number`, each once. False if there is none. Another
/// worker may be enlisted in its place: it does not count among the `most` of hz_workers_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_lost(workers: Option<&hz_workers>, number: *mut usize) -> bool {
    let Some(workers) = workers.filter(|_| !number.is_null()) else { return false };
    let Some(lost) = workers.0.scheduler.lost() else { return false };
    // SAFETY: the caller keeps the rules of the header.
    unsafe { number.write(lost) };
    true
}

/// From now on the worker also takes calls for any worker.
#[unsafe(no_mangle)]
pub extern "C" fn hz_workers_open(workers: Option<&hz_workers>, number: usize) {
    if let Some(workers) = workers {
        workers.0.scheduler.open(number);
    }
}

/// Queues a call with `len` bytes at `data`, which are copied, and `memory_count` pieces of memory, which are not, and are
/// given back also if this fails. It is for the worker with the number `worker`, or for any if that is SIZE_MAX.
/// hz_workers_collect reports it by `tag`. HZ_ERROR_ENDED says that the workers were closed. The caller owns `job`, which is
/// written before the call begins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_submit(
    workers: Option<&hz_workers>,
    worker: usize,
    tag: u64,
    data: *const c_char,
    len: usize,
    memory: *const hz_memory,
    memory_count: usize,
    job: *mut *mut hz_job,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        // Before anything can fail: it is given back then.
        let pieces = array(memory, memory_count, "memory")?;
        let memory = pieces.iter().map(|piece| KeptMemory::lent(piece)).collect();
        let out = slot(job, "job")?;
        let team = &given(workers, "workers")?.0;
        let data = copied(array(data.cast::<u8>(), len, "data")?)?;
        for piece in pieces {
            memory_at(piece.data, piece.len)?;
        }
        let worker = (worker != usize::MAX).then_some(worker);
        let job = Arc::new(Job::new(tag, Call { data, memory }));
        let put = || out.put(hz_job { job: job.clone(), team: team.clone() });
        if team.scheduler.submit(worker, &job, put) {
            return Ok(());
        }
        let message = "the workers were closed, or this worker does not exist".to_owned();
        Err(Failure::Misuse(hz_status::HZ_ERROR_ENDED, message))
    })
}

/// Waits for ended calls whose results nobody else looks for, and writes the tags of at most `capacity` of them to `tags`.
/// Returns how many. 0 says that the workers were closed, and that all threads have ended. Each tag is written once,
/// whichever thread calls this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_collect(
    workers: Option<&hz_workers>,
    tags: *mut u64,
    capacity: usize,
) -> usize {
    let Some(workers) = workers.filter(|_| !tags.is_null()) else { return 0 };
    // SAFETY: the caller keeps the rules of the header.
    workers.0.scheduler.collect(unsafe { std::slice::from_raw_parts_mut(tags, capacity) })
}

/// Interrupts the call that a worker runs, as hz_interrupt_handle_interrupt. True if there was one.
#[unsafe(no_mangle)]
pub extern "C" fn hz_workers_interrupt(workers: Option<&hz_workers>, number: usize) -> bool {
    workers.is_some_and(|workers| workers.0.interrupt(number))
}

/// Accepts no further calls: the queued ones run, and then the threads end.
#[unsafe(no_mangle)]
pub extern "C" fn hz_workers_close(workers: Option<&hz_workers>) {
    if let Some(workers) = workers {
        workers.0.scheduler.close();
    }
}

/// As hz_workers_close, but calls that have not begun, or wait for a worker to open, end with HZ_ERROR_ENDED.
#[unsafe(no_mangle)]
pub extern "C" fn hz_workers_abandon(workers: Option<&hz_workers>) {
    if let Some(workers) = workers {
        workers.0.abandon();
    }
}

/// Closes the workers and gives them up. NULL is allowed. It waits for nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_workers_free(workers: Option<Box<hz_workers>>) {
    hz_workers_close(workers.as_deref());
    free(workers);
}

/// How far a call has come. HZ_STAGE_CANCELLED for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_job_stage(job: Option<&hz_job>) -> hz_stage {
    job.map_or(hz_stage::HZ_STAGE_CANCELLED, |job| match job.job.stage() {
        Stage::Queued => hz_stage::HZ_STAGE_QUEUED,
        Stage::Running => hz_stage::HZ_STAGE_RUNNING,
        Stage::Ended | Stage::Claimed => hz_stage::HZ_STAGE_ENDED,
        Stage::Cancelled => hz_stage::HZ_STAGE_CANCELLED,
    })
}

/// Takes a call out of the queue. True if it never runs; false if it has begun. Its memory is given back.
#[unsafe(no_mangle)]
pub extern "C" fn hz_job_cancel(job: Option<&hz_job>) -> bool {
    job.is_some_and(|job| job.job.cancel())
}

/// Looks for the result for so many microseconds, without sleep: for short calls. True if the result has come and is the
/// caller's: then no other call of this returns true, and hz_workers_collect does not name the call, unless it has done so
/// before.
#[unsafe(no_mangle)]
pub extern "C" fn hz_job_claim(job: Option<&hz_job>, microseconds: u64) -> bool {
    job.is_some_and(|job| job.job.wait(Duration::from_micros(microseconds)))
}

/// Makes hz_workers_collect name a call that was claimed.
#[unsafe(no_mangle)]
pub extern "C" fn hz_job_give_back(job: Option<&hz_job>) {
    if let Some(job) = job {
        job.team.scheduler.give_back(&job.job);
    }
}

/// The return value of a call that has ended, or its error. HZ_ERROR_BUSY says that it has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_job_answer(
    job: Option<&hz_job>,
    answer: *mut hz_answer,
    error: *mut *mut hz_error,
) -> hz_status {
    if let Some(failure) = job.and_then(hz_job::failure) {
        // SAFETY: the caller keeps the rules of the header.
        return unsafe { reported(error, failure) };
    }
    guarded!(error, {
        let Returned { data, buffers } = given(job, "job")?.returned()?;
        let (data, len) = data.parts();
        write(answer, "answer", hz_answer { data, len, buffers: buffers.len() })
    })
}

/// The memory of an object that a call has returned beside its bytes: `index` counts from 0. It is given back when the job and
/// each buffer of it have been freed. The caller owns `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_job_buffer(
    job: Option<&hz_job>,
    index: usize,
    buffer: *mut *mut hz_buffer,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        fill(buffer, "buffer", || {
            let buffers = &given(job, "job")?.returned()?.buffers;
            let none = || Failure::argument(format!("the call has {} buffers", buffers.len()));
            Ok(buffers.get(index).ok_or_else(none)?.clone())
        })
    })
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
pub extern "C" fn hz_job_free(job: Option<Box<hz_job>>) {
    free(job);
}
