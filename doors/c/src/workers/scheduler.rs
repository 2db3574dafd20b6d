//! Calls that threads take from one queue, and the threads that wait for their results. The type of a call is a parameter.
//!
//! A worker gets calls of its own, in their order, and once it is open also those for any worker. A call begins when a
//! worker is enlisted for it, as the calls of a process pool wait for their process. The first free worker runs it.
//!
//! A sleeping thread takes 50 to 100 us to wake up on another processor. So a worker without calls looks for one for a
//! moment before it sleeps, one worker at a time, and [`Job::wait`] looks for the result for a given time. Results that
//! nobody looks for go to [`Scheduler::collect`].

use super::assignments::{Assignments, Begun, Turn};
use super::job::{Job, lock, look_for, wait};
use super::notices::Notices;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use std::{process, thread};

/// How long a worker without calls looks for one before it sleeps.
const PATIENCE: Duration = Duration::from_micros(50);

/// Threads that take calls from one queue.
pub(crate) struct Scheduler<C, R> {
    assignments: Mutex<Assignments<C, R>>,
    /// Changes when the looking worker gets a call.
    news: AtomicUsize,
    notices: Notices,
    /// Whether looking helps, because another processor can do the work meanwhile.
    has_many_processors: bool,
    /// The process that owns the threads.
    process: u32,
}

impl<C, R> Scheduler<C, R> {
    /// [`FEW`](super::notices::FEW) goes to the collector whenever a call is submitted that no idle worker will take at once,
    /// until there are `most` workers.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            assignments: Mutex::new(Assignments::new(most)),
            news: AtomicUsize::new(0),
            notices: Notices::new(),
            has_many_processors: thread::available_parallelism()
                .is_ok_and(|number| number.get() > 1),
            process: process::id(),
        }
    }

    /// Queues a call for a worker, or for any, after `before`. False, without `before`, after [`Scheduler::close`], or if the worker
    /// does not exist.
    pub(crate) fn submit(
        &self,
        worker: Option<usize>,
        job: &Arc<Job<C, R>>,
        before: impl FnOnce(),
    ) -> bool {
        let mut assignments = lock(&self.assignments);
        // A worker that is not open may be told something after the end of all other calls.
        if assignments.is_abandoned || (assignments.is_closing && worker.is_none()) {
            return false;
        }
        if let Some(number) = worker {
            let worker = assignments.workers.get_mut(number).filter(|worker| !worker.is_over);
            let Some(worker) = worker else { return false };
            before();
            worker.own.push_back(job.clone());
            self.call(assignments, number);
            return true;
        }
        before();
        assignments.queue.push_back(job.clone());
        self.news.fetch_add(1, Ordering::Release);
        let helper = assignments.helper();
        let are_few = assignments.lacks_workers() && assignments.workers.len() < assignments.most;
        drop(assignments);
        if let Some(bell) = helper {
            bell.notify_one();
        }
        if are_few {
            self.notices.are_few();
        }
        true
    }

    /// Makes a worker ask for its next turn, as soon as it is idle.
    fn call(&self, mut assignments: MutexGuard<'_, Assignments<C, R>>, number: usize) {
        if assignments.looking == Some(number) {
            self.news.fetch_add(1, Ordering::Release);
        }
        let bell = assignments.called(number);
        drop(assignments);
        bell.notify_one();
    }

    /// A new worker, for the first call of the queue if there is one. It is not open. With `only_if_few` there is none unless
    /// calls wait that no idle worker will take at once.
    pub(crate) fn enlist(&self, only_if_few: bool) -> Option<usize> {
        let mut assignments = lock(&self.assignments);
        (!only_if_few || assignments.lacks_workers()).then(|| assignments.enlist())
    }

    /// A worker's thread is about to start. False, and nothing is done, if the worker does not exist or its thread was started
    /// before.
    pub(crate) fn arrive(&self, number: usize) -> bool {
        let mut assignments = lock(&self.assignments);
        let Some(worker) = assignments.workers.get_mut(number).filter(|worker| !worker.is_started)
        else {
            return false;
        };
        worker.is_started = true;
        drop(assignments);
        self.notices.arrives();
        true
    }

    /// A worker's thread ends, or has not started.
    pub(crate) fn leave(&self) {
        self.notices.leaves();
    }

    /// From now on the worker also takes calls for any worker.
    pub(crate) fn open(&self, number: usize) {
        let mut assignments = lock(&self.assignments);
        if let Some(worker) = assignments.workers.get_mut(number) {
            worker.is_open = true;
            self.call(assignments, number);
        }
    }

    /// Makes the worker free objects that others have dropped, after its current call. False if it has ended, and will not.
    pub(crate) fn tidy(&self, number: usize) -> bool {
        if self.process != process::id() {
            // A forked child has no workers, and one of its parent's may hold the lock.
            return true;
        }
        let mut assignments = lock(&self.assignments);
        let Some(worker) = assignments.workers.get_mut(number).filter(|worker| !worker.is_over)
        else {
            return false;
        };
        worker.is_untidy = true;
        self.call(assignments, number);
        true
    }

    /// A worker's interpreter has crashed: its own calls end with these results, and another worker may come in its place. To be
    /// called by its thread, which asks for no further turn.
    pub(crate) fn lose(&self, number: usize, result: impl Fn() -> R) {
        let mut assignments = lock(&self.assignments);
        let left = assignments.lose(number);
        let are_few = assignments.lacks_workers() && assignments.workers.len() < assignments.most;
        drop(assignments);
        for Begun { job, call } in left {
            drop(call);
            self.end(&job, result());
        }
        if are_few {
            self.notices.are_few();
        }
    }

    /// A worker that was lost, and was not named before.
    pub(crate) fn lost(&self) -> Option<usize> {
        lock(&self.assignments).lost.pop_front()
    }

    /// No further calls. Workers end when there are no more.
    pub(crate) fn close(&self) {
        lock(&self.assignments).is_closing = true;
        self.tell_all();
    }

    /// The same, and calls that have not begun end with these results.
    pub(crate) fn abandon(&self, result: impl Fn() -> R) {
        let left = lock(&self.assignments).abandon();
        for Begun { job, call } in left {
            drop(call);
            self.end(&job, result());
        }
        self.tell_all();
    }

    fn tell_all(&self) {
        self.notices.close();
        let mut assignments = lock(&self.assignments);
        for number in 0..assignments.workers.len() {
            assignments.called(number).notify_one();
        }
    }

    /// The worker's next turn. None at the end.
    pub(crate) fn next(&self, number: usize) -> Option<Turn<C, R>> {
        let mut may_look = self.has_many_processors;
        let mut assignments = lock(&self.assignments);
        loop {
            if let Some(turn) = assignments.turn_of(number) {
                // This one may have come for a call that is left now.
                let helper = assignments.helper();
                drop(assignments);
                if let Some(bell) = helper {
                    bell.notify_one();
                }
                return Some(turn);
            }
            if assignments.is_over_for(number) {
                assignments.workers[number].is_over = true;
                return None;
            }
            let bell = assignments.workers[number].bell.clone();
            if !assignments.workers[number].is_open {
                assignments = wait(&bell, assignments);
                continue;
            }
            assignments.idle += 1;
            if may_look && assignments.looking.is_none() {
                assignments.looking = Some(number);
                assignments.coming += 1;
                let seen = self.news.load(Ordering::Acquire);
                drop(assignments);
                look_for(PATIENCE, || self.news.load(Ordering::Acquire) != seen);
                assignments = lock(&self.assignments);
                assignments.looking = None;
            } else {
                assignments.asleep.push(number);
                while assignments.asleep.contains(&number) {
                    assignments = wait(&bell, assignments);
                }
            }
            assignments.coming -= 1;
            may_look = false;
            assignments.idle -= 1;
        }
    }

    /// Ends a call.
    pub(crate) fn end(&self, job: &Job<C, R>, result: R) {
        if job.end(result) {
            self.notices.ended(job.tag);
        }
    }

    /// Gives a result that was claimed to the collector.
    pub(crate) fn give_back(&self, job: &Job<C, R>) {
        if job.unclaim() {
            self.notices.ended(job.tag);
        }
    }

    /// See [`Notices::collect`].
    pub(crate) fn collect(&self, tags: &mut [u64]) -> usize {
        self.notices.collect(tags)
    }
}

#[cfg(test)]
mod tests {
    use super::{Scheduler, lock};
    use crate::workers::assignments::{Begun, Turn};
    use crate::workers::job::{Job, Stage};
    use crate::workers::notices::FEW;
    use std::collections::HashMap;
    use std::ops::Range;
    use std::sync::{Arc, OnceLock, mpsc};
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    /// A call is a number, and its result the next one.
    type Numbers = Scheduler<u64, u64>;
    const LONG: Duration = Duration::from_secs(60);

    /// Starts a worker's thread.
    fn start(scheduler: &Arc<Numbers>) -> (usize, JoinHandle<usize>) {
        let number = scheduler.enlist(false).unwrap();
        assert!(
            scheduler.arrive(number) && !scheduler.arrive(number) && !scheduler.arrive(number + 1)
        );
        let own = scheduler.clone();
        let thread = thread::spawn(move || {
            let mut calls = 0;
            while let Some(turn) = own.next(number) {
                let Turn::Run(begun) = turn else { continue };
                own.end(&begun.job, begun.call + 1);
                calls += 1;
            }
            own.leave();
            calls
        });
        (number, thread)
    }

    /// A call that is its own tag.
    fn submit_to(
        scheduler: &Numbers,
        worker: Option<usize>,
        call: u64,
    ) -> Option<Arc<Job<u64, u64>>> {
        let job = Arc::new(Job::new(call, call));
        scheduler.submit(worker, &job, || ()).then_some(job)
    }

    fn submit(scheduler: &Numbers, call: u64) -> Arc<Job<u64, u64>> {
        submit_to(scheduler, None, call).unwrap()
    }

    fn call<C, R>(turn: Option<Turn<C, R>>) -> Begun<C, R> {
        match turn {
            Some(Turn::Run(begun)) => begun,
            _ => panic!("a worker has a call"),
        }
    }

    /// Waits for a result, as the thread that looks for it.
    fn awaited(job: &Job<u64, u64>) -> u64 {
        assert!(job.wait(LONG));
        *job.result().unwrap()
    }

    #[test]
    fn a_worker_runs_its_own_calls_and_once_it_is_open_those_for_any() {
        let scheduler = Arc::new(Numbers::new(0));
        let held = submit(&scheduler, 1);
        let (number, thread) = start(&scheduler);
        assert_eq!(held.stage(), Stage::Running);
        let own = submit_to(&scheduler, Some(number), 2).unwrap();
        assert_eq!(awaited(&own), 3);
        assert_eq!(held.stage(), Stage::Running);
        assert!(!held.cancel());
        scheduler.open(number);
        assert_eq!(awaited(&held), 2);
        assert_eq!(awaited(&submit(&scheduler, 5)), 6);
        scheduler.close();
        assert!(submit_to(&scheduler, None, 0).is_none());
        // A result that came before this thread looked for it goes to the collector, and to nobody else.
        let jobs = HashMap::from([(1, held), (2, own)]);
        let mut tag = [0];
        while scheduler.collect(&mut tag) > 0 {
            assert!(jobs.get(&tag[0]).is_none_or(|job| !job.wait(Duration::ZERO)));
        }
        assert_eq!(scheduler.collect(&mut tag), 0);
        assert_eq!(thread.join().unwrap(), 3);
    }

    #[test]
    fn a_call_that_waits_for_a_worker_to_open_is_taken_by_one_that_is_free() {
        let scheduler = Numbers::new(0);
        let first = submit(&scheduler, 1);
        let open = scheduler.enlist(false).unwrap();
        scheduler.open(open);
        let begun = call(scheduler.next(open));
        let second = submit(&scheduler, 2);
        let starting = scheduler.enlist(true).unwrap();
        assert_eq!(second.stage(), Stage::Running);
        scheduler.end(&begun.job, 2);
        assert_eq!(awaited(&first), 2);
        assert_eq!(call(scheduler.next(open)).call, 2);
        // The other one has nothing to wait for.
        scheduler.close();
        assert!(scheduler.next(starting).is_none());
    }

    #[test]
    fn a_call_that_was_cancelled_never_runs() {
        let scheduler = Arc::new(Numbers::new(0));
        let jobs: Vec<_> = (0..4).map(|call| submit(&scheduler, call)).collect();
        assert!(jobs[1].cancel() && jobs[1].cancel());
        let (number, thread) = start(&scheduler);
        assert!(!jobs[0].cancel());
        scheduler.open(number);
        scheduler.close();
        assert_eq!(thread.join().unwrap(), 3);
        assert_eq!(jobs[1].stage(), Stage::Cancelled);
        let mut tags = [9; 8];
        assert_eq!(scheduler.collect(&mut tags), 3);
        assert_eq!(tags[..3], [0, 2, 3]);
        assert!(!jobs[1].wait(Duration::ZERO));
    }

    #[test]
    fn each_result_is_claimed_once_by_who_looks_or_by_the_collector() {
        const CALLS: u64 = 20_000;
        const CLAIMERS: u64 = 2;
        let scheduler = Arc::new(Numbers::new(0));
        let workers: Vec<_> = (0..3).map(|_| start(&scheduler)).collect();
        for (number, _) in &workers {
            scheduler.open(*number);
        }
        let jobs: Vec<OnceLock<Arc<Job<u64, u64>>>> =
            (0..CLAIMERS * CALLS).map(|_| OnceLock::new()).collect();
        let collect = || {
            let (mut tags, mut claims) = ([0; 16], 0);
            loop {
                let count = scheduler.collect(&mut tags);
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
                let job = submit(&scheduler, *call);
                assert!(jobs[usize::try_from(*call).unwrap()].set(job.clone()).is_ok());
                let is_mine = job.wait(Duration::from_micros(call % 20));
                assert!(!is_mine || job.result() == Some(&(call + 1)));
                // The other way around: it was claimed for nothing.
                let goes_back = is_mine && call % 7 == 0;
                if goes_back {
                    scheduler.give_back(&job);
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
            scheduler.close();
            claims += collector.join().unwrap();
            claims
        });
        let calls: usize = workers.into_iter().map(|(_, thread)| thread.join().unwrap()).sum();
        assert_eq!((calls, claims), (jobs.len(), jobs.len()));
    }

    #[test]
    fn what_has_not_begun_ends_when_the_scheduler_is_abandoned() {
        let scheduler = Arc::new(Numbers::new(0));
        let jobs: Vec<_> = (0..4).map(|call| submit(&scheduler, call)).collect();
        let (number, thread) = start(&scheduler);
        let own = submit_to(&scheduler, Some(number), 8).unwrap();
        assert_eq!(awaited(&own), 9);
        assert!(jobs[2].cancel());
        scheduler.abandon(|| 77);
        for job in [&jobs[0], &jobs[1], &jobs[3]] {
            assert_eq!(awaited(job), 77);
        }
        assert_eq!(jobs[2].stage(), Stage::Cancelled);
        assert_eq!(thread.join().unwrap(), 1);
        assert!(submit_to(&scheduler, None, 1).is_none());
        assert!(submit_to(&scheduler, Some(number), 1).is_none());
    }

    #[test]
    fn a_worker_is_enlisted_if_calls_wait_that_no_idle_worker_takes() {
        let scheduler = Arc::new(Numbers::new(0));
        assert!(scheduler.enlist(true).is_none());
        let job = submit(&scheduler, 1);
        assert!(lock(&scheduler.assignments).lacks_workers());
        let (number, thread) = start(&scheduler);
        // It began with its worker.
        assert!(scheduler.enlist(true).is_none());
        scheduler.open(number);
        assert_eq!(awaited(&job), 2);
        // Until it looks for a call, or sleeps, it is busy.
        while scheduler.assignments.lock().unwrap().idle == 0 {
            thread::yield_now();
        }
        scheduler.close();
        thread.join().unwrap();
    }
    #[test]
    fn a_call_that_a_worker_leaves_for_one_of_its_own_is_run_by_another() {
        type Action = Box<dyn FnOnce(usize) -> usize + Send>;
        let scheduler = Arc::new(Scheduler::<Action, usize>::new(0));
        let submit = |worker, action| {
            let job = Arc::new(Job::new(0, action));
            assert!(scheduler.submit(worker, &job, || ()));
            job
        };
        let worker = |number| {
            let scheduler = scheduler.clone();
            assert!(scheduler.arrive(number));
            thread::spawn(move || {
                while let Some(turn) = scheduler.next(number) {
                    let Begun { job, call } = call(Some(turn));
                    scheduler.end(&job, call(number));
                }
                scheduler.leave();
            })
        };
        let threads = [scheduler.enlist(false), scheduler.enlist(false)].map(|number| {
            let number = number.unwrap();
            scheduler.open(number);
            worker(number)
        });
        for _ in 0..200 {
            let first = submit(None, Box::new(|number| number) as Action);
            assert!(first.wait(LONG));
            // That worker looks for a call, and finds two at once. Its own one waits for the other.
            let (done, is_done) = mpsc::channel();
            let own: Action = Box::new(move |number| {
                is_done.recv_timeout(LONG).expect("the call for any worker has run");
                number
            });
            let own = submit(first.result().copied(), own);
            let any: Action = Box::new(move |number| {
                done.send(()).unwrap();
                number
            });
            let any = submit(None, any);
            assert!(any.wait(LONG) && own.wait(LONG));
        }
        scheduler.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn a_worker_frees_what_others_have_dropped_before_its_next_call_and_when_it_has_none() {
        let scheduler = Arc::new(Numbers::new(0));
        let number = scheduler.enlist(false).unwrap();
        scheduler.open(number);
        let job = submit(&scheduler, 1);
        assert!(scheduler.tidy(number) && scheduler.tidy(number) && !scheduler.tidy(number + 1));
        assert!(matches!(scheduler.next(number), Some(Turn::Tidy)));
        assert!(Arc::ptr_eq(&call(scheduler.next(number)).job, &job));
        let own = scheduler.clone();
        let thread = thread::spawn(move || {
            let is_tidy = matches!(own.next(number), Some(Turn::Tidy));
            (is_tidy, own.next(number).is_none())
        });
        while scheduler.assignments.lock().unwrap().asleep.is_empty() {
            thread::yield_now();
        }
        assert!(scheduler.tidy(number));
        scheduler.close();
        assert_eq!(thread.join().unwrap(), (true, true));
        assert!(!scheduler.tidy(number));
    }

    #[test]
    fn a_lost_worker_runs_nothing_and_another_one_may_come_in_its_place() {
        let scheduler = Numbers::new(1);
        let first = submit(&scheduler, 1);
        let number = scheduler.enlist(true).unwrap();
        scheduler.open(number);
        let running = call(scheduler.next(number));
        assert!(Arc::ptr_eq(&running.job, &first));
        let (own, any) = (submit_to(&scheduler, Some(number), 2).unwrap(), submit(&scheduler, 3));
        let mut tags = [0; 4];
        scheduler.lose(number, || 77);
        // The place is free again, and a call waits for it.
        assert_eq!((scheduler.collect(&mut tags), tags[0], tags[1]), (2, FEW, 2));
        assert_eq!((own.result(), any.stage()), (Some(&77), Stage::Queued));
        assert_eq!((scheduler.lost(), scheduler.lost()), (Some(number), None));
        assert!(submit_to(&scheduler, Some(number), 4).is_none());
        let next = scheduler.enlist(true).unwrap();
        scheduler.open(next);
        assert!(Arc::ptr_eq(&call(scheduler.next(next)).job, &any));
        assert!(scheduler.enlist(true).is_none());
    }

    #[test]
    fn the_collector_hears_when_calls_lack_workers() {
        let scheduler = Numbers::new(1);
        let mut tags = [0; 4];
        submit(&scheduler, 1);
        submit(&scheduler, 2);
        submit(&scheduler, 3);
        assert_eq!((scheduler.collect(&mut tags), tags[0]), (1, FEW));
        scheduler.enlist(true).unwrap();
        submit(&scheduler, 4);
        scheduler.close();
        assert_eq!(scheduler.collect(&mut tags), 0);
    }
}
