//! Decides which worker takes which call, and which must be woken for it. A scheduler's lock guards it. It wakes no thread itself.

use super::job::Job;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar};

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

/// The next turn of a worker.
pub(crate) enum Turn<C, R> {
    Run(Begun<C, R>),
    /// It frees objects that others have dropped: [`Scheduler::tidy`].
    Tidy,
}

/// Calls, and the workers that they wait for. A lock guards it.
pub(crate) struct Assignments<C, R> {
    /// Calls for any worker.
    pub(crate) queue: VecDeque<Arc<Job<C, R>>>,
    pub(crate) workers: Vec<Worker<C, R>>,
    /// Open workers without a call.
    pub(crate) idle: usize,
    /// The idle worker that looks for a call.
    pub(crate) looking: Option<usize>,
    /// Idle workers that sleep.
    pub(crate) asleep: Vec<usize>,
    /// How many idle workers will ask for a call without being woken: the one that looks, and those that were woken.
    pub(crate) coming: usize,
    /// The collector hears when calls lack workers until there are so many.
    pub(crate) most: usize,
    /// Workers whose interpreters have crashed, until the program has asked for them.
    pub(crate) lost: VecDeque<usize>,
    pub(crate) is_closing: bool,
    pub(crate) is_abandoned: bool,
}

pub(crate) struct Worker<C, R> {
    pub(crate) own: VecDeque<Arc<Job<C, R>>>,
    /// The call that it was enlisted for.
    held: Option<Begun<C, R>>,
    /// Wakes its thread.
    pub(crate) bell: Arc<Condvar>,
    pub(crate) is_started: bool,
    pub(crate) is_open: bool,
    pub(crate) is_untidy: bool,
    pub(crate) is_over: bool,
}

impl<C, R> Assignments<C, R> {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            workers: Vec::new(),
            idle: 0,
            looking: None,
            asleep: Vec::new(),
            coming: 0,
            most,
            lost: VecDeque::new(),
            is_closing: false,
            is_abandoned: false,
        }
    }

    /// Whether calls wait that no idle worker will take at once.
    pub(crate) fn lacks_workers(&self) -> bool {
        self.queue.len() > self.idle
    }

    /// A new worker, for the first call of the queue if there is one.
    pub(crate) fn enlist(&mut self) -> usize {
        self.workers.push(Worker {
            own: VecDeque::new(),
            held: Begun::first(&mut self.queue),
            bell: Arc::default(),
            is_started: false,
            is_open: false,
            is_untidy: false,
            is_over: false,
        });
        self.workers.len() - 1
    }

    /// A worker runs nothing more, and another one may come in its place. Returns its own calls. The call that waits for it to open
    /// waits for another one.
    pub(crate) fn lose(&mut self, number: usize) -> Vec<Begun<C, R>> {
        let worker = &mut self.workers[number];
        (worker.is_open, worker.is_over) = (false, true);
        let mut own = std::mem::take(&mut worker.own);
        self.lost.push_back(number);
        self.most += usize::from(self.most > 0);
        std::iter::from_fn(|| Begun::first(&mut own)).collect()
    }

    /// No call begins from now on. Returns those that have not begun, or wait for a worker to open.
    pub(crate) fn abandon(&mut self) -> Vec<Begun<C, R>> {
        (self.is_closing, self.is_abandoned) = (true, true);
        let mut queues = vec![std::mem::take(&mut self.queue)];
        let mut left = Vec::new();
        for worker in &mut self.workers {
            left.extend(worker.held.take());
            queues.push(std::mem::take(&mut worker.own));
        }
        for mut queue in queues {
            left.extend(std::iter::from_fn(|| Begun::first(&mut queue)));
        }
        left
    }

    /// The next turn of a worker.
    pub(crate) fn turn_of(&mut self, number: usize) -> Option<Turn<C, R>> {
        if std::mem::take(&mut self.workers[number].is_untidy) {
            return Some(Turn::Tidy);
        }
        self.call_for(number).map(Turn::Run)
    }

    /// The next call of a worker.
    fn call_for(&mut self, number: usize) -> Option<Begun<C, R>> {
        let worker = &mut self.workers[number];
        let own = Begun::first(&mut worker.own);
        if own.is_some() || !worker.is_open {
            return own;
        }
        let held = worker.held.take();
        // Those that wait for a worker to open are older than those of the queue.
        held.or_else(|| self.held_by_another()).or_else(|| Begun::first(&mut self.queue))
    }

    /// A call that waits for another worker to open.
    fn held_by_another(&mut self) -> Option<Begun<C, R>> {
        self.workers.iter_mut().find_map(|worker| worker.held.take())
    }

    /// Whether a worker that has no call will get none.
    pub(crate) fn is_over_for(&self, number: usize) -> bool {
        let worker = &self.workers[number];
        self.is_abandoned || (self.is_closing && worker.held.is_none())
    }

    /// The bell of a sleeping worker, if calls wait that nobody will take without it. To be called after each change of
    /// the queue or of `coming`, of which each is by one.
    pub(crate) fn helper(&mut self) -> Option<Arc<Condvar>> {
        if self.queue.len() <= self.coming {
            return None;
        }
        let number = self.asleep.pop()?;
        self.coming += 1;
        Some(self.workers[number].bell.clone())
    }

    /// The bell of a worker, which will ask for a call.
    pub(crate) fn called(&mut self, number: usize) -> Arc<Condvar> {
        if let Some(place) = self.asleep.iter().position(|asleep| *asleep == number) {
            self.asleep.swap_remove(place);
            self.coming += 1;
        }
        self.workers[number].bell.clone()
    }
}
