use super::{Queue, Rules};
use crate::config::{DynamicBatching, ModelConfig};
use crate::queue::Pending;
use crate::request::{Code, DataType, Event, Input, Request};
use bytes::BytesMut;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

fn queue(most: usize, batching: &str) -> Queue {
    let text = format!("max_batch_size: {most} dynamic_batching {{ {batching} }}");
    let batching: Option<DynamicBatching> =
        ModelConfig::of_text(&text, "m").unwrap().dynamic_batching().cloned();
    Queue::new(Rules::new(most, batching, vec!["A".to_owned()]))
}

struct Put {
    pending: Arc<Pending>,
    events: Receiver<Event>,
}

impl Put {
    fn code(&self) -> Option<Code> {
        self.events
            .try_recv()
            .ok()
            .and_then(|event| event.response?.err())
            .map(|failure| failure.code)
    }
}

fn put(queue: &Queue, id: &str, size: usize, change: impl FnOnce(&mut Request)) -> Put {
    let (sender, events) = channel();
    let pending = Arc::new(Pending::new(Box::new(move |event| drop(sender.send(event))), false));
    let data = BytesMut::zeroed(size);
    let input = Input {
        name: "A".to_owned(),
        data_type: DataType::Int8,
        shape: vec![size as i64, 1],
        data,
    };
    let mut request = Request { id: id.to_owned(), inputs: vec![input], ..Request::default() };
    change(&mut request);
    if let Err(refusal) = queue.put("m", request, pending.clone(), size) {
        pending.fail(refusal.failure("m"));
    }
    Put { pending, events }
}

fn next(queue: &Queue) -> Vec<String> {
    queue
        .next(&AtomicBool::new(false))
        .unwrap()
        .into_iter()
        .map(|queued| queued.request.id)
        .collect()
}

#[test]
fn requests_are_joined_up_to_the_size_of_a_batch() {
    let queue = queue(4, "");
    let _kept: Vec<_> = [("a", 1), ("b", 2), ("c", 2), ("d", 4), ("e", 1)]
        .map(|(id, size)| put(&queue, id, size, |_| {}))
        .into();
    assert_eq!(queue.len(), 5);
    assert_eq!(
        [next(&queue), next(&queue), next(&queue), next(&queue)],
        [vec!["a", "b"], vec!["c"], vec!["d"], vec!["e"]]
    );
}

#[test]
fn a_model_without_batching_gets_one_request_at_a_time() {
    let queue = Queue::new(Rules::new(0, None, vec![]));
    let _kept = ["a", "b"].map(|id| put(&queue, id, 1, |_| {}));
    assert_eq!([next(&queue), next(&queue)], [["a"], ["b"]]);
}

#[test]
fn requests_of_other_extents_are_not_joined() {
    let queue = queue(4, "");
    let _kept = [("a", 1), ("b", 2), ("c", 2)]
        .map(|(id, width)| put(&queue, id, 1, |request| request.inputs[0].shape[1] = width));
    assert_eq!([next(&queue), next(&queue)], [vec!["a"], vec!["b", "c"]]);
}

#[test]
fn a_request_waits_for_others_as_long_as_it_may() {
    let queue = queue(4, "max_queue_delay_microseconds: 50000");
    let began = Instant::now();
    let _alone = put(&queue, "alone", 1, |_| {});
    assert_eq!(next(&queue), ["alone"]);
    assert!(began.elapsed() >= Duration::from_millis(50));
    // A full batch does not wait.
    let began = Instant::now();
    let _full = ["a", "b"].map(|id| put(&queue, id, 2, |_| {}));
    assert_eq!(next(&queue), ["a", "b"]);
    assert!(began.elapsed() < Duration::from_millis(50));
}

#[test]
fn a_preferred_size_does_not_wait() {
    let queue = queue(8, "preferred_batch_size: [ 2, 4 ] max_queue_delay_microseconds: 60000000");
    let _kept = ["a", "b", "c"].map(|id| put(&queue, id, 1, |_| {}));
    assert_eq!(next(&queue), ["a", "b"]);
    let _more = ["d", "e", "f"].map(|id| put(&queue, id, 1, |_| {}));
    assert_eq!(next(&queue), ["c", "d", "e", "f"]);
}

#[test]
fn the_first_level_is_served_first() {
    let queue = queue(1, "priority_levels: 3 default_priority_level: 2");
    let _kept = [("last", 3), ("default", 0), ("first", 1), ("beyond", 9)]
        .map(|(id, priority)| put(&queue, id, 1, |request| request.priority = priority));
    assert_eq!(
        [next(&queue), next(&queue), next(&queue), next(&queue)],
        [["first"], ["default"], ["last"], ["beyond"]]
    );
}

#[test]
fn a_full_queue_refuses() {
    let queue = queue(1, "default_queue_policy { max_queue_size: 1 }");
    let (first, second) = (put(&queue, "a", 1, |_| {}), put(&queue, "b", 1, |_| {}));
    assert_eq!((first.code(), second.code()), (None, Some(Code::Unavailable)));
    assert_eq!(next(&queue), ["a"]);
}

#[test]
fn who_has_waited_too_long_is_refused_or_served_last() {
    let queue_of = |action: &str| {
        let policy = format!(
            "timeout_action: {action} default_timeout_microseconds: 20000 allow_timeout_override: true"
        );
        queue(1, &format!("default_queue_policy {{ {policy} }}"))
    };
    let short = |request: &mut Request| request.timeout = 1;
    let rejecting = queue_of("REJECT");
    let (late, good) = (put(&rejecting, "late", 1, short), put(&rejecting, "good", 1, |_| {}));
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(next(&rejecting), ["good"]);
    assert_eq!((late.code(), good.code()), (Some(Code::Unavailable), None));
    let delaying = queue_of("DELAY");
    let _kept = (put(&delaying, "late", 1, short), put(&delaying, "good", 1, |_| {}));
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!([next(&delaying), next(&delaying)], [["good"], ["late"]]);
}

#[test]
fn a_cancelled_request_leaves_the_queue() {
    let queue = queue(1, "");
    let (gone, good) = (put(&queue, "gone", 1, |_| {}), put(&queue, "good", 1, |_| {}));
    gone.pending.cancel();
    assert_eq!(next(&queue), ["good"]);
    assert_eq!((gone.code(), good.code()), (Some(Code::Cancelled), None));
}

#[test]
fn a_closed_queue_serves_who_waits_and_refuses_others() {
    let queue = queue(1, "");
    let first = put(&queue, "a", 1, |_| {});
    queue.close();
    let second = put(&queue, "b", 1, |_| {});
    assert_eq!((first.code(), second.code()), (None, Some(Code::Unavailable)));
    assert_eq!(next(&queue), ["a"]);
    assert!(queue.next(&AtomicBool::new(false)).is_none());
}

#[test]
fn a_thread_that_waits_is_woken() {
    let queue = Arc::new(queue(1, ""));
    let waiting = std::thread::spawn({
        let queue = queue.clone();
        move || next(&queue)
    });
    std::thread::sleep(Duration::from_millis(20));
    let _kept = put(&queue, "a", 1, |_| {});
    assert_eq!(waiting.join().unwrap(), ["a"]);
}

#[test]
fn the_thread_that_waits_last_is_woken_first_and_alone() {
    let queue = queue(1, "");
    let waits = |count: usize| while queue.state.lock().idle.len() < count {};
    let served = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let begin = |name: char| {
            let (queue, served) = (&queue, &served);
            let thread = scope.spawn(move || {
                while let Some(batch) = queue.next(&AtomicBool::new(false)) {
                    served
                        .lock()
                        .extend(batch.iter().map(|queued| (name, queued.request.id.clone())));
                }
            });
            drop(thread);
        };
        begin('a');
        waits(1);
        begin('b');
        waits(2);
        for id in ["1", "2", "3"] {
            let _kept = put(&queue, id, 1, |_| {});
            // It serves and waits again.
            while served.lock().last().is_none_or(|(_, last)| last != id) {}
            waits(2);
        }
        queue.close();
    });
    let served: Vec<_> = served.into_inner().into_iter().map(|(name, _)| name).collect();
    assert_eq!(served, ['b', 'b', 'b']);
}

#[test]
fn no_request_is_left_when_many_threads_come_and_go() {
    let queue = queue(4, "max_queue_delay_microseconds: 50");
    let served = std::sync::atomic::AtomicUsize::new(0);
    const EACH: usize = 2000;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(batch) = queue.next(&AtomicBool::new(false)) {
                    served.fetch_add(batch.len(), Ordering::SeqCst);
                }
            });
        }
        // Instances that are given up in the middle.
        scope.spawn(|| {
            for _ in 0..200 {
                let is_over = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    let waits = scope.spawn(|| {
                        let batch = queue.next(&is_over).unwrap_or_default();
                        served.fetch_add(batch.len(), Ordering::SeqCst);
                    });
                    is_over.store(true, Ordering::SeqCst);
                    while !waits.is_finished() {
                        queue.wake();
                    }
                });
            }
        });
        let putters: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for number in 0..EACH {
                        let _kept = put(&queue, "a", 1, |_| {});
                        if number % 16 == 0 {
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        putters.into_iter().for_each(|putter| putter.join().unwrap());
        let end = Instant::now() + Duration::from_secs(20);
        while served.load(Ordering::SeqCst) < 2 * EACH && Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!((served.load(Ordering::SeqCst), queue.len()), (2 * EACH, 0), "nobody was woken");
        queue.close();
    });
}

#[test]
fn an_instance_that_was_given_up_gets_no_batch() {
    let queue = queue(4, "");
    let _kept = put(&queue, "a", 1, |_| {});
    assert!(queue.next(&AtomicBool::new(true)).is_none());
    assert_eq!(next(&queue), ["a"]);
    // One that waits is woken.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| queue.next(&is_over));
        is_over.store(true, Ordering::SeqCst);
        queue.wake();
        assert!(waits.join().unwrap().is_none());
    });
}
