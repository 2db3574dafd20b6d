//! Which sequence has which place, and what waits in it.

use super::controls::{END, START};
use super::{Policy, cancelled, late};
use crate::config::Strategy;
use crate::queue::{Found, Queued, Refusal};
use crate::request::{CorrelationId, Failure};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

/// The requests of one correlation id.
struct Sequence {
    waiting: VecDeque<Queued>,
    seat: Option<Seat>,
    /// Whether its last request is the end, and the next one must be a start.
    has_ended: bool,
    /// Since when it does nothing.
    since: Instant,
    /// When its first request came to be the first, among those of all sequences.
    turn: u64,
}

impl Sequence {
    /// How many of the waiting requests there are up to the next end.
    fn until_end(&self) -> usize {
        let end = self.waiting.iter().position(|queued| has(queued, END));
        end.map_or(self.waiting.len(), |place| place + 1)
    }

    fn is_cancelled(&self) -> bool {
        self.waiting.front().is_some_and(|queued| queued.pending.is_cancelled())
    }

    /// When the first of the requests up to the next end has waited too long for a place.
    fn deadline(&self) -> Option<Instant> {
        self.waiting.iter().take(self.until_end()).filter_map(|queued| queued.deadline).min()
    }

    /// Takes out the requests up to the next end.
    fn give_up(&mut self, failure: &Failure, gone: &mut Vec<Gone>) {
        let count = self.until_end();
        gone.extend(self.waiting.drain(..count).map(|queued| Gone(queued, failure.clone())));
    }
}

fn has(queued: &Queued, flag: u32) -> bool {
    queued.request.flags & flag != 0
}

/// A request that is not served, and why.
pub(super) struct Gone(Queued, Failure);

impl Gone {
    pub(super) fn tell(self) {
        self.0.pending.fail(self.1);
    }
}

/// A place of a sequence.
#[derive(Clone, Copy)]
struct Seat {
    instance: usize,
    place: usize,
}

/// The places of an instance.
pub(super) struct Seats {
    taken: BTreeMap<usize, CorrelationId>,
    /// Of those that were taken before.
    free: BTreeSet<usize>,
    /// The least that was never taken.
    unused: usize,
    most: usize,
    /// Sequences in the batch that the instance serves, and whether they end with it.
    running: Vec<(CorrelationId, bool)>,
}

impl Seats {
    pub(super) fn new(most: usize) -> Self {
        Self { taken: BTreeMap::new(), free: BTreeSet::new(), unused: 0, most, running: Vec::new() }
    }

    fn least_free(&self) -> Option<usize> {
        let unused = Some(self.unused).filter(|place| *place < self.most);
        self.free.first().copied().or(unused)
    }

    fn take(&mut self, place: usize, id: CorrelationId) {
        if !self.free.remove(&place) && place == self.unused {
            self.unused += 1;
        }
        self.taken.insert(place, id);
    }

    fn leave(&mut self, place: usize) -> Option<CorrelationId> {
        self.free.insert(place);
        self.taken.remove(&place)
    }
}

/// Whom a new request concerns.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Concerned {
    One(usize),
    All,
    Nobody,
}

pub(super) struct Seating {
    sequences: HashMap<CorrelationId, Sequence>,
    seats: Vec<Seats>,
    /// Sequences that wait for a place. Then no place is free.
    backlog: VecDeque<CorrelationId>,
    turn: u64,
    is_closed: bool,
}

impl Seating {
    pub(super) fn new(seats: Vec<Seats>) -> Self {
        let (sequences, backlog) = (HashMap::new(), VecDeque::new());
        Self { sequences, seats, backlog, turn: 0, is_closed: false }
    }

    pub(super) fn len(&self) -> usize {
        self.sequences.values().map(|sequence| sequence.waiting.len()).sum()
    }

    pub(super) fn longest_wait_since(&self) -> Option<Instant> {
        let firsts = self.sequences.values().filter_map(|sequence| sequence.waiting.front());
        firsts.map(|queued| queued.since).min()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn take_all(&mut self) -> Vec<Queued> {
        self.backlog.clear();
        self.seats.iter_mut().for_each(|seats| *seats = Seats::new(seats.most));
        self.sequences.drain().flat_map(|(_, sequence)| sequence.waiting).collect()
    }

    /// Puts a request behind those of its sequence.
    pub(super) fn put(&mut self, model: &str, queued: Queued) -> Result<Concerned, Refusal> {
        if self.is_closed {
            return Err(Refusal::Closed(Box::new(queued.request)));
        }
        let id = queued.request.correlation_id.clone();
        let (starts, ends) = (has(&queued, START), has(&queued, END));
        let is_open = self.sequences.get(&id).is_some_and(|sequence| !sequence.has_ended);
        if !starts && !is_open {
            return Err(Failure::invalid(format!(
                "inference request for sequence {} to model '{model}' must specify the START flag on the first request of \
                 the sequence",
                text(&id)
            ))
            .into());
        }
        if starts && is_open {
            tracing::warn!(model, "sequence {} starts, and has not ended before", text(&id));
        }
        self.turn += 1;
        let (turn, since, has_deadline) = (self.turn, queued.since, queued.deadline.is_some());
        if !self.sequences.contains_key(&id) {
            let seat = self.find_seat(&id);
            let waiting = VecDeque::new();
            let sequence = Sequence { waiting, seat, has_ended: false, since, turn };
            self.sequences.insert(id.clone(), sequence);
        }
        let sequence = self.sequences.get_mut(&id).expect("it is there by now");
        if sequence.waiting.is_empty() {
            sequence.turn = turn;
        }
        sequence.waiting.push_back(queued);
        (sequence.has_ended, sequence.since) = (ends, since);
        Ok(match sequence.seat {
            Some(seat) => Concerned::One(seat.instance),
            None if has_deadline => Concerned::All,
            None => Concerned::Nobody,
        })
    }

    /// A seat for a new sequence: the lowest place that is free in any instance. Without one it waits in the backlog.
    fn find_seat(&mut self, id: &CorrelationId) -> Option<Seat> {
        let free = self.seats.iter().enumerate();
        let free = free.filter_map(|(instance, seats)| Some((seats.least_free()?, instance)));
        match free.min() {
            Some((place, instance)) => {
                self.seats[instance].take(place, id.clone());
                Some(Seat { instance, place })
            }
            None => {
                self.backlog.push_back(id.clone());
                None
            }
        }
    }

    /// An instance has served its batch.
    pub(super) fn served(&mut self, instance: usize, now: Instant) {
        for (id, ends) in std::mem::take(&mut self.seats[instance].running) {
            self.turn += 1;
            let Some(sequence) = self.sequences.get_mut(&id) else { continue };
            (sequence.since, sequence.turn) = (now, self.turn);
            if let Some(seat) = sequence.seat.filter(|_| ends) {
                self.release(seat);
            }
        }
    }

    /// A sequence leaves its place. Requests behind its end wait for another place. The first of the backlog gets this one.
    fn release(&mut self, seat: Seat) {
        let seats = &mut self.seats[seat.instance];
        let id = seats.leave(seat.place).expect("only a taken place is released");
        let sequence = self.sequences.get_mut(&id).expect("who has a place is known");
        if sequence.waiting.is_empty() {
            self.sequences.remove(&id);
        } else {
            sequence.seat = None;
            self.backlog.push_back(id);
        }
        let Some(id) = self.backlog.pop_front() else { return };
        self.turn += 1;
        let sequence = self.sequences.get_mut(&id).expect("who is in the backlog is known");
        (sequence.seat, sequence.turn) = (Some(seat), self.turn);
        seats.take(seat.place, id);
    }

    /// Ends the sequences that hold a place of an instance, and returns their waiting requests. Requests queued behind an end
    /// are a sequence of their own, and wait for a place.
    pub(super) fn end_sequences(&mut self, instance: usize, failure: &Failure) -> Vec<Gone> {
        self.seats[instance].running.clear();
        let taken: Vec<_> = self.seats[instance].taken.clone().into_iter().collect();
        let mut gone = Vec::new();
        for (place, id) in taken {
            let sequence = self.sequences.get_mut(&id).expect("who has a place is known");
            sequence.give_up(failure, &mut gone);
            self.release(Seat { instance, place });
        }
        gone
    }

    /// The next batch of an instance. `gone` gets the requests that will never be in one.
    pub(super) fn next(
        &mut self,
        instance: usize,
        policy: &Policy,
        now: Instant,
        gone: &mut Vec<Gone>,
    ) -> Found {
        self.expire_backlog(now, gone);
        let idle = self.expire_places(instance, policy.idle, now, gone);
        let timeouts = self.backlog.iter().filter_map(|id| self.sequences[id].deadline()).min();
        let taken = self.seats[instance].taken.iter();
        let ready: Vec<(usize, CorrelationId)> = taken
            .filter(|(_, id)| !self.sequences[id].waiting.is_empty())
            .map(|(place, id)| (*place, id.clone()))
            .collect();
        let found = match (&policy.strategy, &ready[..]) {
            (_, []) => Err(None),
            (Strategy::Direct { delay, utilization }, ready) => {
                match self.direct_until(ready.len(), policy.places, *delay, *utilization, ready) {
                    Some(until) if until > now && !self.is_closed => Err(Some(until)),
                    _ => Ok(self.direct(instance, policy, ready, now)),
                }
            }
            (Strategy::Oldest { .. }, _) => self.oldest(instance, policy, ready, now),
        };
        match found {
            Ok(batch) => Found::Batch(batch),
            Err(until) => [until, idle, timeouts]
                .into_iter()
                .flatten()
                .min()
                .map_or(Found::Nothing, Found::Later),
        }
    }

    /// Takes sequences out of the backlog that were cancelled, or have waited too long for a place.
    fn expire_backlog(&mut self, now: Instant, gone: &mut Vec<Gone>) {
        let sequences = &mut self.sequences;
        self.backlog.retain(|id| {
            let sequence = sequences.get_mut(id).expect("who is in the backlog is known");
            while let Some(failure) = match sequence.deadline() {
                _ if sequence.is_cancelled() => Some(cancelled()),
                Some(deadline) if deadline <= now => Some(late()),
                _ => None,
            } {
                sequence.give_up(&failure, gone);
            }
            let is_over = sequence.waiting.is_empty();
            if is_over {
                sequences.remove(id);
            }
            !is_over
        });
    }

    /// Ends sequences of an instance that were cancelled, or do nothing. Returns when the next one will have done nothing
    /// for too long.
    fn expire_places(
        &mut self,
        instance: usize,
        idle: Duration,
        now: Instant,
        gone: &mut Vec<Gone>,
    ) -> Option<Instant> {
        let places: Vec<usize> = self.seats[instance].taken.keys().copied().collect();
        let mut next: Option<Instant> = None;
        for place in places {
            // A sequence of the backlog that gets the place may be cancelled, too.
            while let Some(id) = self.seats[instance].taken.get(&place) {
                let sequence = self.sequences.get_mut(id).expect("who has a place is known");
                if sequence.is_cancelled() {
                    sequence.give_up(&cancelled(), gone);
                } else if !sequence.waiting.is_empty() {
                    break;
                } else if !self.is_closed && sequence.since + idle > now {
                    let until = sequence.since + idle;
                    next = Some(next.map_or(until, |known| known.min(until)));
                    break;
                }
                self.release(Seat { instance, place });
            }
        }
        next
    }

    fn first(&self, id: &CorrelationId) -> &Queued {
        self.sequences[id].waiting.front().expect("only sequences that have one are asked")
    }

    /// Until when the requests that are there wait for others, if they do.
    fn direct_until(
        &self,
        count: usize,
        places: usize,
        delay: Duration,
        utilization: f32,
        ready: &[(usize, CorrelationId)],
    ) -> Option<Instant> {
        if utilization == 0.0 || count as f32 / places as f32 >= utilization {
            return None;
        }
        ready.iter().map(|(_, id)| self.first(id).since + delay).min()
    }

    /// One request of each place up to the last that has one. Where none is, or none that fits the oldest, is a stand-in:
    /// so a sequence has the same place in all batches.
    fn direct(
        &mut self,
        instance: usize,
        policy: &Policy,
        ready: &[(usize, CorrelationId)],
        now: Instant,
    ) -> Vec<Queued> {
        let oldest = ready.iter().map(|(_, id)| self.first(id)).min_by_key(|queued| queued.since);
        let model = &oldest.expect("nobody asks for an empty batch").request;
        let mut batch: Vec<Option<CorrelationId>> = Vec::new();
        for (place, id) in ready {
            if policy.rules.fit(model, &self.first(id).request) {
                batch.resize(*place, None);
                batch.push(Some(id.clone()));
            }
        }
        let absent = batch.iter().filter(|id| id.is_none());
        let mut stand_ins: Vec<_> = absent.map(|_| policy.stand_in(model, now)).collect();
        let taken = batch.into_iter().map(|id| match id {
            Some(id) => self.take(instance, policy, id),
            None => stand_ins.pop().expect("there is one for each absent"),
        });
        taken.collect()
    }

    /// The requests that are there, joined as those of other models are. Or when to look again.
    fn oldest(
        &mut self,
        instance: usize,
        policy: &Policy,
        ready: Vec<(usize, CorrelationId)>,
        now: Instant,
    ) -> Result<Vec<Queued>, Option<Instant>> {
        let mut ids: Vec<CorrelationId> = ready.into_iter().map(|(_, id)| id).collect();
        ids.sort_by_key(|id| self.sequences[id].turn);
        let count = policy.rules.batch(ids.iter().map(|id| self.first(id)), now);
        ids.truncate(count.map_err(Some)?);
        Ok(ids.into_iter().map(|id| self.take(instance, policy, id)).collect())
    }

    /// Takes the first request of a sequence for a batch of its instance.
    fn take(&mut self, instance: usize, policy: &Policy, id: CorrelationId) -> Queued {
        let sequence = self.sequences.get_mut(&id).expect("who has a place is known");
        let mut queued = sequence.waiting.pop_front().expect("it was there just now");
        self.seats[instance].running.push((id, has(&queued, END)));
        policy.controls.add(&mut queued.request, true);
        queued
    }
}

fn text(id: &CorrelationId) -> String {
    match id {
        CorrelationId::Number(number) => number.to_string(),
        CorrelationId::Text(text) => text.clone(),
    }
}
