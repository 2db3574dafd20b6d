//! Calls that threads take from one queue, and whoever waits for their results. Nothing here knows what a call is.
//!
//! A worker gets calls of its own, in their order, and once it is open also those that are for any worker. A call
//! begins when a worker is enlisted for it, as the calls of a process pool wait for their process. Whichever worker is
//! free first runs it.
//!
//! Threads that sleep take 50 to 100 us to wake up on another processor. So a worker that has no more calls looks for
//! one for a moment before it sleeps, one worker at a time, and [`Job::wait`] looks for the result as long as it is
//! told. Results that nobody looks for are told to [`Crew::collect`].

use crate::job::{Job, lock, look_for};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a worker without calls looks for one before it sleeps.
const PATIENCE: Duration = Duration::from_micros(50);

/// A call that a worker runs.
pub(crate) struct Begun<C, R> {
    pub(crate) job: Arc<Job<C, R>>,
    pub(crate) call: C,
}

impl<C, R> Begun<C, R> {
    /// The first call of a queue that was not cancelled.
    fn first(queue: &mut VecDeque<Arc<Job<C, R>>>) -> Option<Self> {
        while let Some(job) = queue.pop_front() {
            if let Some(call) = job.begin() {
                return Some(Self { job, call });
            }
        }
        None
    }
}

/// Threads that take calls from one queue.
pub(crate) struct Crew<C, R> {
    desk: Mutex<Desk<C, R>>,
    /// For open workers that sleep.
    work: Condvar,
    /// For workers that are not open.
    door: Condvar,
    /// How many calls were ever queued for any worker: who looks for one looks here.
    queued: AtomicUsize,
    told: Mutex<Told>,
    collector: Condvar,
    /// Whether it helps to look for something that another processor does.
    has_many_processors: bool,
}

/// What the lock guards.
struct Desk<C, R> {
    /// Calls for any worker.
    queue: VecDeque<Arc<Job<C, R>>>,
    workers: Vec<Worker<C, R>>,
    /// Open workers without a call.
    idle: usize,
    is_one_looking: bool,
    is_closing: bool,
    is_abandoned: bool,
}

struct Worker<C, R> {
    own: VecDeque<Arc<Job<C, R>>>,
    /// The call that it was enlisted for.
    held: Option<Begun<C, R>>,
    is_started: bool,
    is_open: bool,
}

/// What the collector is told.
struct Told {
    ended: VecDeque<u64>,
    /// Workers that run.
    present: usize,
    is_closing: bool,
}

impl<C, R> Desk<C, R> {
    /// The next call of a worker.
    fn call_for(&mut self, number: usize) -> Option<Begun<C, R>> {
        let worker = &mut self.workers[number];
        let own = Begun::first(&mut worker.own);
        if own.is_some() || !worker.is_open {
            return own;
        }
        let held = worker.held.take();
        held.or_else(|| Begun::first(&mut self.queue)).or_else(|| self.held_by_another())
    }

    /// A call that waits for a worker to open, while this one has none.
    fn held_by_another(&mut self) -> Option<Begun<C, R>> {
        self.workers.iter_mut().find_map(|worker| worker.held.take())
    }

    /// Whether a worker that has no call will get none.
    fn is_over_for(&self, number: usize) -> bool {
        let worker = &self.workers[number];
        self.is_abandoned || (self.is_closing && worker.held.is_none())
    }
}

impl<C, R> Crew<C, R> {
    pub(crate) fn new() -> Self {
        Self {
            desk: Mutex::new(Desk {
                queue: VecDeque::new(),
                workers: Vec::new(),
                idle: 0,
                is_one_looking: false,
                is_closing: false,
                is_abandoned: false,
            }),
            work: Condvar::new(),
            door: Condvar::new(),
            queued: AtomicUsize::new(0),
            told: Mutex::new(Told { ended: VecDeque::new(), present: 0, is_closing: false }),
            collector: Condvar::new(),
            has_many_processors: thread::available_parallelism()
                .is_ok_and(|number| number.get() > 1),
        }
    }

    /// Queues a call for a worker, or for any. None after [`Crew::close`], or if there is no such worker.
    pub(crate) fn submit(
        &self,
        worker: Option<usize>,
        tag: u64,
        call: C,
    ) -> Option<Arc<Job<C, R>>> {
        let job = Arc::new(Job::new(tag, call));
        let mut desk = lock(&self.desk);
        // A worker that is not open may be told something after the end of all other calls.
        if desk.is_abandoned || (desk.is_closing && worker.is_none()) {
            return None;
        }
        let Some(number) = worker else {
            desk.queue.push_back(job.clone());
            self.queued.fetch_add(1, Ordering::Release);
            // Who looks for a call finds this one.
            let is_found = desk.is_one_looking && desk.queue.len() == 1;
            drop(desk);
            if !is_found {
                self.work.notify_one();
            }
            return Some(job);
        };
        desk.workers.get_mut(number)?.own.push_back(job.clone());
        drop(desk);
        self.door.notify_all();
        self.work.notify_all();
        Some(job)
    }

    /// A new worker, for the first call of the queue if there is one. It is not open.
    pub(crate) fn enlist(&self) -> usize {
        let desk = &mut *lock(&self.desk);
        let held = Begun::first(&mut desk.queue);
        let own = VecDeque::new();
        desk.workers.push(Worker { own, held, is_started: false, is_open: false });
        desk.workers.len() - 1
    }

    /// Whether calls wait that no idle worker will take at once.
    pub(crate) fn lacks_workers(&self) -> bool {
        let desk = lock(&self.desk);
        desk.queue.len() > desk.idle
    }

    /// A worker's thread is about to start. False, and nothing is done, if there is no such worker, or its thread was
    /// started before.
    pub(crate) fn arrive(&self, number: usize) -> bool {
        let mut desk = lock(&self.desk);
        let Some(worker) = desk.workers.get_mut(number).filter(|worker| !worker.is_started) else {
            return false;
        };
        worker.is_started = true;
        drop(desk);
        lock(&self.told).present += 1;
        true
    }

    /// A worker's thread ends, or has not started.
    pub(crate) fn leave(&self) {
        lock(&self.told).present -= 1;
        self.collector.notify_all();
    }

    /// From now on the worker takes calls that are for any.
    pub(crate) fn open(&self, number: usize) {
        if let Some(worker) = lock(&self.desk).workers.get_mut(number) {
            worker.is_open = true;
        }
        self.door.notify_all();
    }

    /// No further calls. Workers end when there are no more.
    pub(crate) fn close(&self) {
        lock(&self.desk).is_closing = true;
        self.tell_all();
    }

    /// The same, and what has not begun ends with these results.
    pub(crate) fn abandon(&self, result: impl Fn() -> R) {
        let left: Vec<_> = {
            let desk = &mut *lock(&self.desk);
            (desk.is_closing, desk.is_abandoned) = (true, true);
            let mut queues = vec![std::mem::take(&mut desk.queue)];
            let mut left = Vec::new();
            for worker in &mut desk.workers {
                left.extend(worker.held.take());
                queues.push(std::mem::take(&mut worker.own));
            }
            for mut queue in queues {
                left.extend(std::iter::from_fn(|| Begun::first(&mut queue)));
            }
            left
        };
        for Begun { job, call } in left {
            drop(call);
            self.end(&job, result());
        }
        self.tell_all();
    }

    fn tell_all(&self) {
        lock(&self.told).is_closing = true;
        self.collector.notify_all();
        self.door.notify_all();
        self.work.notify_all();
    }

    /// The next call of a worker. None if there will be none.
    pub(crate) fn next(&self, number: usize) -> Option<Begun<C, R>> {
        let mut may_look = self.has_many_processors;
        let mut desk = lock(&self.desk);
        loop {
            if let Some(begun) = desk.call_for(number) {
                return Some(begun);
            }
            if desk.is_over_for(number) {
                return None;
            }
            if !desk.workers[number].is_open {
                desk = wait(&self.door, desk);
                continue;
            }
            desk.idle += 1;
            if may_look && !desk.is_one_looking {
                desk.is_one_looking = true;
                let seen = self.queued.load(Ordering::Acquire);
                drop(desk);
                look_for(PATIENCE, || self.queued.load(Ordering::Acquire) != seen);
                desk = lock(&self.desk);
                desk.is_one_looking = false;
            } else {
                desk = wait(&self.work, desk);
            }
            may_look = false;
            desk.idle -= 1;
        }
    }

    /// Ends a call.
    pub(crate) fn end(&self, job: &Job<C, R>, result: R) {
        if job.end(result) {
            self.tell(job);
        }
    }

    /// Gives a result that was claimed to the collector.
    pub(crate) fn give_back(&self, job: &Job<C, R>) {
        if job.unclaim() {
            self.tell(job);
        }
    }

    fn tell(&self, job: &Job<C, R>) {
        lock(&self.told).ended.push_back(job.tag);
        self.collector.notify_one();
    }

    /// Waits for calls that have ended and whose results nobody looked for, and writes their tags. How many. 0 means
    /// that the crew was closed, and all its workers have ended.
    pub(crate) fn collect(&self, tags: &mut [u64]) -> usize {
        let mut told = lock(&self.told);
        while told.ended.is_empty() && !(told.is_closing && told.present == 0) {
            told = wait(&self.collector, told);
        }
        let count = told.ended.len().min(tags.len());
        for (place, tag) in tags.iter_mut().zip(told.ended.drain(..count)) {
            *place = tag;
        }
        count
    }
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Crew, Job};
    use crate::job::Stage;
    use std::collections::HashMap;
    use std::ops::Range;
    use std::sync::{Arc, OnceLock};
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    /// A call is a number, and its result the next one.
    type Numbers = Crew<u64, u64>;
    const LONG: Duration = Duration::from_secs(60);

    /// Starts a worker's thread.
    fn start(crew: &Arc<Numbers>) -> (usize, JoinHandle<usize>) {
        let number = crew.enlist();
        assert!(crew.arrive(number) && !crew.arrive(number) && !crew.arrive(number + 1));
        let own = crew.clone();
        let thread = thread::spawn(move || {
            let mut calls = 0;
            while let Some(begun) = own.next(number) {
                own.end(&begun.job, begun.call + 1);
                calls += 1;
            }
            own.leave();
            calls
        });
        (number, thread)
    }

    fn submit(crew: &Numbers, call: u64) -> Arc<Job<u64, u64>> {
        crew.submit(None, call, call).unwrap()
    }

    /// Waits for a result, as the thread that looks for it.
    fn awaited(job: &Job<u64, u64>) -> u64 {
        assert!(job.wait(LONG));
        *job.result().unwrap()
    }

    #[test]
    fn a_worker_runs_its_own_calls_and_once_it_is_open_those_for_any() {
        let crew = Arc::new(Numbers::new());
        let held = submit(&crew, 1);
        let (number, thread) = start(&crew);
        assert_eq!(held.stage(), Stage::Running);
        let own = crew.submit(Some(number), 2, 2).unwrap();
        assert_eq!(awaited(&own), 3);
        assert_eq!(held.stage(), Stage::Running);
        assert!(!held.cancel());
        crew.open(number);
        assert_eq!(awaited(&held), 2);
        assert_eq!(awaited(&submit(&crew, 5)), 6);
        crew.close();
        assert!(crew.submit(None, 0, 0).is_none());
        // What ended before this thread looked for it is told, and belongs to nobody else.
        let jobs = HashMap::from([(1, held), (2, own)]);
        let mut tag = [0];
        while crew.collect(&mut tag) > 0 {
            assert!(jobs.get(&tag[0]).is_none_or(|job| !job.wait(Duration::ZERO)));
        }
        assert_eq!(crew.collect(&mut tag), 0);
        assert_eq!(thread.join().unwrap(), 3);
    }

    #[test]
    fn a_call_that_waits_for_a_worker_to_open_is_taken_by_one_that_is_free() {
        let crew = Numbers::new();
        let first = submit(&crew, 1);
        let open = crew.enlist();
        crew.open(open);
        let begun = crew.next(open).unwrap();
        let second = submit(&crew, 2);
        let starting = crew.enlist();
        assert_eq!(second.stage(), Stage::Running);
        crew.end(&begun.job, 2);
        assert_eq!(awaited(&first), 2);
        assert_eq!(crew.next(open).unwrap().call, 2);
        // The other one has nothing to wait for.
        crew.close();
        assert!(crew.next(starting).is_none());
    }

    #[test]
    fn a_call_that_was_cancelled_never_runs() {
        let crew = Arc::new(Numbers::new());
        let jobs: Vec<_> = (0..4).map(|call| submit(&crew, call)).collect();
        assert!(jobs[1].cancel() && jobs[1].cancel());
        let (number, thread) = start(&crew);
        assert!(!jobs[0].cancel());
        crew.open(number);
        crew.close();
        assert_eq!(thread.join().unwrap(), 3);
        assert_eq!(jobs[1].stage(), Stage::Cancelled);
        let mut tags = [9; 8];
        assert_eq!(crew.collect(&mut tags), 3);
        assert_eq!(tags[..3], [0, 2, 3]);
        assert!(!jobs[1].wait(Duration::ZERO));
    }

    #[test]
    fn each_result_is_claimed_once_by_who_looks_or_by_the_collector() {
        const CALLS: u64 = 20_000;
        const CLAIMERS: u64 = 2;
        let crew = Arc::new(Numbers::new());
        let workers: Vec<_> = (0..3).map(|_| start(&crew)).collect();
        for (number, _) in &workers {
            crew.open(*number);
        }
        let jobs: Vec<OnceLock<Arc<Job<u64, u64>>>> =
            (0..CLAIMERS * CALLS).map(|_| OnceLock::new()).collect();
        let collect = || {
            let (mut tags, mut claims) = ([0; 16], 0);
            loop {
                let count = crew.collect(&mut tags);
                if count == 0 {
                    return claims;
                }
                for tag in &tags[..count] {
                    let job = jobs[usize::try_from(*tag).unwrap()].wait();
                    claims += usize::from(job.wait(Duration::ZERO));
                }
            }
        };
        let look = |calls: Range<u64>| {
            let claims = calls.filter(|call| {
                let job = submit(&crew, *call);
                assert!(jobs[usize::try_from(*call).unwrap()].set(job.clone()).is_ok());
                let is_mine = job.wait(Duration::from_micros(call % 20));
                assert!(!is_mine || job.result() == Some(&(call + 1)));
                // The other way around: it was claimed for nothing.
                let goes_back = is_mine && call % 7 == 0;
                if goes_back {
                    crew.give_back(&job);
                }
                is_mine && !goes_back
            });
            claims.count()
        };
        let claims: usize = thread::scope(|scope| {
            let collector = scope.spawn(collect);
            let claimers: Vec<_> = (0..CLAIMERS)
                .map(|claimer| scope.spawn(move || look(claimer * CALLS..(claimer + 1) * CALLS)))
                .collect();
            let mut claims: usize =
                claimers.into_iter().map(|claimer| claimer.join().unwrap()).sum();
            crew.close();
            claims += collector.join().unwrap();
            claims
        });
        let calls: usize = workers.into_iter().map(|(_, thread)| thread.join().unwrap()).sum();
        assert_eq!((calls, claims), (jobs.len(), jobs.len()));
    }

    #[test]
    fn what_has_not_begun_ends_when_the_crew_is_abandoned() {
        let crew = Arc::new(Numbers::new());
        let jobs: Vec<_> = (0..4).map(|call| submit(&crew, call)).collect();
        let (number, thread) = start(&crew);
        let own = crew.submit(Some(number), 8, 8).unwrap();
        assert_eq!(awaited(&own), 9);
        assert!(jobs[2].cancel());
        crew.abandon(|| 77);
        for job in [&jobs[0], &jobs[1], &jobs[3]] {
            assert_eq!(awaited(job), 77);
        }
        assert_eq!(jobs[2].stage(), Stage::Cancelled);
        assert_eq!(thread.join().unwrap(), 1);
        assert!(crew.submit(None, 1, 1).is_none());
        assert!(crew.submit(Some(number), 1, 1).is_none());
    }

    #[test]
    fn it_says_when_another_worker_could_help() {
        let crew = Arc::new(Numbers::new());
        assert!(!crew.lacks_workers());
        let job = submit(&crew, 1);
        assert!(crew.lacks_workers());
        let (number, thread) = start(&crew);
        // It began with its worker.
        assert!(!crew.lacks_workers());
        crew.open(number);
        assert_eq!(awaited(&job), 2);
        // Until it looks for a call, or sleeps, it is busy.
        while crew.desk.lock().unwrap().idle == 0 {
            thread::yield_now();
        }
        crew.close();
        thread.join().unwrap();
    }
}
