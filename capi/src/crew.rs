//! Calls that threads take from one queue, and whoever waits for their results. Nothing here knows what a call is.
//!
//! A worker gets calls of its own, in their order, and once it is open also those that are for any worker. A call
//! begins when a worker is enlisted for it, as the calls of a process pool wait for their process. Whichever worker is
//! free first runs it.
//!
//! Threads that sleep take 50 to 100 us to wake up on another processor. So a worker that has no more calls looks for
//! one for a moment before it sleeps, one worker at a time, and [`Job::wait`] looks for the result as long as it is
//! told. Results that nobody looks for are told to [`Crew::collect`].

use crate::desk::{Begun, Desk, Turn};
use crate::job::{Job, lock, look_for, wait};
use crate::told::Told;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use std::{process, thread};

/// How long a worker without calls looks for one before it sleeps.
const PATIENCE: Duration = Duration::from_micros(50);

/// Threads that take calls from one queue.
pub(crate) struct Crew<C, R> {
    desk: Mutex<Desk<C, R>>,
    /// Changes when the worker that looks for a call has one.
    news: AtomicUsize,
    told: Told,
    /// Whether it helps to look for something that another processor does.
    has_many_processors: bool,
    /// The process that has the threads.
    process: u32,
}

impl<C, R> Crew<C, R> {
    pub(crate) fn new() -> Self {
        Self {
            desk: Mutex::new(Desk::new()),
            news: AtomicUsize::new(0),
            told: Told::new(),
            has_many_processors: thread::available_parallelism()
                .is_ok_and(|number| number.get() > 1),
            process: process::id(),
        }
    }

    /// Queues a call for a worker, or for any, after `before`. False, without `before`, after [`Crew::close`], or if there is no
    /// such worker.
    pub(crate) fn submit(
        &self,
        worker: Option<usize>,
        job: &Arc<Job<C, R>>,
        before: impl FnOnce(),
    ) -> bool {
        let mut desk = lock(&self.desk);
        // A worker that is not open may be told something after the end of all other calls.
        if desk.is_abandoned || (desk.is_closing && worker.is_none()) {
            return false;
        }
        if let Some(number) = worker {
            let Some(worker) = desk.workers.get_mut(number) else { return false };
            before();
            worker.own.push_back(job.clone());
            self.call(desk, number);
            return true;
        }
        before();
        desk.queue.push_back(job.clone());
        self.news.fetch_add(1, Ordering::Release);
        let helper = desk.helper();
        let are_few = desk.queue.len() > desk.idle && desk.workers.len() < desk.most;
        drop(desk);
        if let Some(bell) = helper {
            bell.notify_one();
        }
        if are_few {
            self.told.are_few();
        }
        true
    }

    /// Has a worker ask what it does next, as soon as it is idle.
    fn call(&self, mut desk: MutexGuard<'_, Desk<C, R>>, number: usize) {
        if desk.looking == Some(number) {
            self.news.fetch_add(1, Ordering::Release);
        }
        let bell = desk.called(number);
        drop(desk);
        bell.notify_one();
    }

    /// Has the collector hear [`FEW`] whenever a call is submitted that no idle worker will take at once, until there are so
    /// many workers.
    pub(crate) fn recruit(&self, most: usize) {
        lock(&self.desk).most = most;
    }

    /// A new worker, for the first call of the queue if there is one. It is not open.
    pub(crate) fn enlist(&self) -> usize {
        lock(&self.desk).enlist()
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
        self.told.arrives();
        true
    }

    /// A worker's thread ends, or has not started.
    pub(crate) fn leave(&self) {
        self.told.leaves();
    }

    /// From now on the worker takes calls that are for any.
    pub(crate) fn open(&self, number: usize) {
        let mut desk = lock(&self.desk);
        if let Some(worker) = desk.workers.get_mut(number) {
            worker.is_open = true;
            self.call(desk, number);
        }
    }

    /// Has the worker free what others have dropped, after the call that it runs. False if it has ended, and will not.
    pub(crate) fn tidy(&self, number: usize) -> bool {
        if self.process != process::id() {
            // A forked child has no workers, and may have the lock of one.
            return true;
        }
        let mut desk = lock(&self.desk);
        let Some(worker) = desk.workers.get_mut(number).filter(|worker| !worker.is_over) else {
            return false;
        };
        worker.is_untidy = true;
        self.call(desk, number);
        true
    }

    /// No further calls. Workers end when there are no more.
    pub(crate) fn close(&self) {
        lock(&self.desk).is_closing = true;
        self.tell_all();
    }

    /// The same, and what has not begun ends with these results.
    pub(crate) fn abandon(&self, result: impl Fn() -> R) {
        let left = lock(&self.desk).abandon();
        for Begun { job, call } in left {
            drop(call);
            self.end(&job, result());
        }
        self.tell_all();
    }

    fn tell_all(&self) {
        self.told.close();
        let mut desk = lock(&self.desk);
        for number in 0..desk.workers.len() {
            desk.called(number).notify_one();
        }
    }

    /// What a worker does next. None if there will be nothing.
    pub(crate) fn next(&self, number: usize) -> Option<Turn<C, R>> {
        let mut may_look = self.has_many_processors;
        let mut desk = lock(&self.desk);
        loop {
            if let Some(turn) = desk.turn_of(number) {
                // This one may have come for a call that is left now.
                let helper = desk.helper();
                drop(desk);
                if let Some(bell) = helper {
                    bell.notify_one();
                }
                return Some(turn);
            }
            if desk.is_over_for(number) {
                desk.workers[number].is_over = true;
                return None;
            }
            let bell = desk.workers[number].bell.clone();
            if !desk.workers[number].is_open {
                desk = wait(&bell, desk);
                continue;
            }
            desk.idle += 1;
            if may_look && desk.looking.is_none() {
                desk.looking = Some(number);
                desk.coming += 1;
                let seen = self.news.load(Ordering::Acquire);
                drop(desk);
                look_for(PATIENCE, || self.news.load(Ordering::Acquire) != seen);
                desk = lock(&self.desk);
                desk.looking = None;
            } else {
                desk.asleep.push(number);
                while desk.asleep.contains(&number) {
                    desk = wait(&bell, desk);
                }
            }
            desk.coming -= 1;
            may_look = false;
            desk.idle -= 1;
        }
    }

    /// Ends a call.
    pub(crate) fn end(&self, job: &Job<C, R>, result: R) {
        if job.end(result) {
            self.told.ended(job.tag);
        }
    }

    /// Gives a result that was claimed to the collector.
    pub(crate) fn give_back(&self, job: &Job<C, R>) {
        if job.unclaim() {
            self.told.ended(job.tag);
        }
    }

    /// See [`Told::collect`].
    pub(crate) fn collect(&self, tags: &mut [u64]) -> usize {
        self.told.collect(tags)
    }
}

#[cfg(test)]
mod tests {
    use super::Crew;
    use crate::desk::{Begun, Turn};
    use crate::job::{Job, Stage};
    use crate::told::FEW;
    use std::collections::HashMap;
    use std::ops::Range;
    use std::sync::{Arc, OnceLock, mpsc};
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
    fn submit_to(crew: &Numbers, worker: Option<usize>, call: u64) -> Option<Arc<Job<u64, u64>>> {
        let job = Arc::new(Job::new(call, call));
        crew.submit(worker, &job, || ()).then_some(job)
    }

    fn submit(crew: &Numbers, call: u64) -> Arc<Job<u64, u64>> {
        submit_to(crew, None, call).unwrap()
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
        let crew = Arc::new(Numbers::new());
        let held = submit(&crew, 1);
        let (number, thread) = start(&crew);
        assert_eq!(held.stage(), Stage::Running);
        let own = submit_to(&crew, Some(number), 2).unwrap();
        assert_eq!(awaited(&own), 3);
        assert_eq!(held.stage(), Stage::Running);
        assert!(!held.cancel());
        crew.open(number);
        assert_eq!(awaited(&held), 2);
        assert_eq!(awaited(&submit(&crew, 5)), 6);
        crew.close();
        assert!(submit_to(&crew, None, 0).is_none());
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
        let begun = call(crew.next(open));
        let second = submit(&crew, 2);
        let starting = crew.enlist();
        assert_eq!(second.stage(), Stage::Running);
        crew.end(&begun.job, 2);
        assert_eq!(awaited(&first), 2);
        assert_eq!(call(crew.next(open)).call, 2);
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
        let own = submit_to(&crew, Some(number), 8).unwrap();
        assert_eq!(awaited(&own), 9);
        assert!(jobs[2].cancel());
        crew.abandon(|| 77);
        for job in [&jobs[0], &jobs[1], &jobs[3]] {
            assert_eq!(awaited(job), 77);
        }
        assert_eq!(jobs[2].stage(), Stage::Cancelled);
        assert_eq!(thread.join().unwrap(), 1);
        assert!(submit_to(&crew, None, 1).is_none());
        assert!(submit_to(&crew, Some(number), 1).is_none());
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
    #[test]
    fn a_call_that_a_worker_leaves_for_one_of_its_own_is_run_by_another() {
        type Action = Box<dyn FnOnce(usize) -> usize + Send>;
        let crew = Arc::new(Crew::<Action, usize>::new());
        let submit = |worker, action| {
            let job = Arc::new(Job::new(0, action));
            assert!(crew.submit(worker, &job, || ()));
            job
        };
        let worker = |number| {
            let crew = crew.clone();
            assert!(crew.arrive(number));
            thread::spawn(move || {
                while let Some(turn) = crew.next(number) {
                    let Begun { job, call } = call(Some(turn));
                    crew.end(&job, call(number));
                }
                crew.leave();
            })
        };
        let threads = [crew.enlist(), crew.enlist()].map(|number| {
            crew.open(number);
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
        crew.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn a_worker_frees_what_others_have_dropped_before_its_next_call_and_when_it_has_none() {
        let crew = Arc::new(Numbers::new());
        let number = crew.enlist();
        crew.open(number);
        let job = submit(&crew, 1);
        assert!(crew.tidy(number) && crew.tidy(number) && !crew.tidy(number + 1));
        assert!(matches!(crew.next(number), Some(Turn::Tidy)));
        assert!(Arc::ptr_eq(&call(crew.next(number)).job, &job));
        let own = crew.clone();
        let thread = thread::spawn(move || {
            let is_tidy = matches!(own.next(number), Some(Turn::Tidy));
            (is_tidy, own.next(number).is_none())
        });
        while crew.desk.lock().unwrap().asleep.is_empty() {
            thread::yield_now();
        }
        assert!(crew.tidy(number));
        crew.close();
        assert_eq!(thread.join().unwrap(), (true, true));
        assert!(!crew.tidy(number));
    }

    #[test]
    fn the_collector_hears_when_calls_lack_workers() {
        let crew = Numbers::new();
        let mut tags = [0; 4];
        submit(&crew, 1);
        crew.recruit(1);
        submit(&crew, 2);
        submit(&crew, 3);
        assert_eq!((crew.collect(&mut tags), tags[0]), (1, FEW));
        crew.enlist();
        submit(&crew, 4);
        crew.close();
        assert_eq!(crew.collect(&mut tags), 0);
    }
}
