use super::controls::{END, START};
use super::seating::{Concerned, Seating, Seats};
use super::{Policy, Sequences};
use crate::config::{ModelConfig, SequenceBatching};
use crate::queue::{Found, Pending, Queued};
use crate::request::{Code, CorrelationId, DataType, Event, Failure, Input, Request, encode_bytes};
use bytes::BytesMut;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const BOTH: u32 = START | END;

fn batching(most: usize, text: &str) -> SequenceBatching {
    let text = format!("max_batch_size: {most} sequence_batching {{ {text} }}");
    ModelConfig::of_text(&text, "m").unwrap().sequence_batching().unwrap().clone()
}

/// The sequences of a model, at times that the test says.
struct Bench {
    policy: Policy,
    state: Seating,
    now: Instant,
    puts: Vec<Put>,
}

struct Put {
    name: String,
    pending: Arc<Pending>,
    events: Receiver<Event>,
}

fn input(width: i64) -> Input {
    let data = BytesMut::from(&vec![7; width as usize][..]);
    Input { name: "A".to_owned(), data_type: DataType::Int8, shape: vec![1, width], data }
}

impl Bench {
    fn new(most: usize, instances: usize, text: &str) -> Self {
        let policy = Policy::new(&batching(most, text), most, vec!["A".to_owned()], false);
        let seats = (0..instances).map(|_| Seats::new(policy.places)).collect();
        Self { policy, state: Seating::new(seats), now: Instant::now(), puts: Vec::new() }
    }

    fn wait(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    fn try_put(
        &mut self,
        id: CorrelationId,
        name: &str,
        flags: u32,
        change: impl FnOnce(&mut Queued),
    ) -> Result<Concerned, Failure> {
        let (sender, events) = channel();
        let pending =
            Arc::new(Pending::new(Box::new(move |event| drop(sender.send(event))), false));
        let request = Request {
            id: name.to_owned(),
            correlation_id: id,
            flags,
            inputs: vec![input(1)],
            ..Request::default()
        };
        let mut queued = Queued {
            request,
            pending: pending.clone(),
            size: 1,
            since: self.now,
            deadline: None,
            is_stand_in: false,
        };
        change(&mut queued);
        self.puts.push(Put { name: name.to_owned(), pending, events });
        self.state.put("m", queued).map_err(|refusal| refusal.failure("m"))
    }

    /// Puts a request of a sequence that a number names.
    fn put(&mut self, id: u64, name: &str, flags: u32) {
        self.try_put(CorrelationId::Number(id), name, flags, |_| {}).unwrap();
    }

    fn refused(&mut self, id: u64, flags: u32) -> String {
        let outcome = self.try_put(CorrelationId::Number(id), "refused", flags, |_| {});
        outcome.unwrap_err().message
    }

    fn named(&self, name: &str) -> &Put {
        self.puts.iter().find(|put| put.name == name).unwrap()
    }

    /// How a request has failed.
    fn failure(&self, name: &str) -> Option<Code> {
        let event = self.named(name).events.try_recv().ok()?;
        event.response?.err().map(|failure| failure.code)
    }

    fn find(&mut self, instance: usize) -> Found {
        let mut gone = Vec::new();
        let found = self.state.next(instance, &self.policy, self.now, &mut gone);
        gone.into_iter().for_each(super::Gone::tell);
        found
    }

    /// The requests of an instance's next batch; stand-ins are empty.
    fn batch(&mut self, instance: usize) -> Vec<String> {
        self.state.served(instance, self.now);
        match self.find(instance) {
            Found::Batch(batch) => batch.into_iter().map(|queued| queued.request.id).collect(),
            Found::Later(_) | Found::Nothing => Vec::new(),
        }
    }

    /// When an instance without a batch looks again, in milliseconds from now.
    fn later(&mut self, instance: usize) -> Option<u128> {
        match self.find(instance) {
            Found::Later(until) => Some((until - self.now).as_millis()),
            Found::Nothing => None,
            Found::Batch(_) => panic!("there is a batch"),
        }
    }
}

#[test]
fn a_sequence_has_one_place_and_its_requests_come_in_order() {
    let mut bench = Bench::new(4, 1, "direct { }");
    bench.put(1, "a1", START);
    bench.put(2, "b1", START);
    bench.put(2, "b2", 0);
    bench.put(3, "c1", BOTH);
    bench.put(2, "b3", END);
    assert_eq!(bench.state.len(), 5);
    assert_eq!(bench.batch(0), ["a1", "b1", "c1"]);
    // Nothing comes after the last place that has a request, and a stand-in where none is before it.
    assert_eq!(bench.batch(0), ["", "b2"]);
    bench.put(1, "a2", END);
    bench.put(4, "d1", BOTH);
    assert_eq!(bench.batch(0), ["a2", "b3", "d1"]);
    assert!(bench.batch(0).is_empty());
    assert_eq!(bench.state.len(), 0);
}

#[test]
fn a_stand_in_looks_like_a_request_and_says_that_it_is_none() {
    let mut bench = Bench::new(2, 1, CONTROLS);
    bench.put(1, "a", START);
    bench.put(2, "b", START);
    bench.batch(0);
    bench.put(2, "b", 0);
    bench.state.served(0, bench.now);
    let Found::Batch(batch) = bench.find(0) else { panic!("there is a batch") };
    let values = |request: &Request| -> Vec<(String, Vec<i64>, Vec<u8>)> {
        let inputs = request.inputs.iter();
        inputs.map(|input| (input.name.clone(), input.shape.clone(), input.data.to_vec())).collect()
    };
    let of = |name: &str, data: &[u8]| (name.to_owned(), vec![1, 1], data.to_vec());
    let expected = [
        of("A", &[0]),
        of("START", &5i32.to_le_bytes()),
        of("READY", &0.5f32.to_le_bytes()),
        of("END", &[1]),
        of("CORRID", &0u32.to_le_bytes()),
    ];
    assert_eq!(values(&batch[0].request), expected);
    assert!(batch[0].is_stand_in && !batch[1].is_stand_in);
    let expected = [
        of("A", &[7]),
        of("START", &5i32.to_le_bytes()),
        of("READY", &1.5f32.to_le_bytes()),
        of("END", &[1]),
        of("CORRID", &2u32.to_le_bytes()),
    ];
    assert_eq!(values(&batch[1].request), expected);
}

const CONTROLS: &str = r#"
control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 5, 6 ] } }
control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0.5, 1.5 ] } }
control_input { name: "END" control { kind: CONTROL_SEQUENCE_END bool_false_true: [ true, false ] } }
control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT32 } }
"#;

#[test]
fn controls_say_where_in_its_sequence_a_request_is() {
    let policy = Policy::new(&batching(0, CONTROLS), 0, Vec::new(), false);
    let of = |flags: u32| {
        let correlation_id = CorrelationId::Number(9);
        let mut request = Request { flags, correlation_id, ..Request::default() };
        policy.controls.add(&mut request, true);
        assert!(request.inputs.iter().all(|input| input.shape == [1]));
        (request.inputs[0].data[0], request.inputs[2].data[0])
    };
    assert_eq!([of(START), of(0), of(END), of(BOTH)], [(6, 1), (5, 1), (5, 0), (6, 0)]);
}

#[test]
fn new_sequences_take_the_lowest_places_and_others_wait_for_one() {
    let mut bench = Bench::new(2, 2, "");
    for (id, name) in [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (6, "f")] {
        bench.put(id, name, START);
    }
    assert_eq!([bench.batch(0), bench.batch(1)], [["a", "c"], ["b", "d"]]);
    // A waiting sequence gets a place when another has ended, and only then.
    bench.put(2, "b2", END);
    assert!(bench.batch(0).is_empty());
    assert_eq!(bench.batch(1), ["b2"]);
    bench.put(5, "e2", END);
    assert!(bench.batch(0).is_empty());
    assert_eq!([bench.batch(1), bench.batch(1), bench.batch(1)], [["e"], ["e2"], ["f"]]);
}

#[test]
fn who_has_no_sequence_is_refused() {
    let mut bench = Bench::new(2, 1, "");
    assert_eq!(
        bench.refused(7, END),
        "inference request for sequence 7 to model 'm' must specify the START flag on the first request of the sequence"
    );
    bench.put(7, "a", START);
    bench.put(7, "b", END);
    assert!(bench.refused(7, 0).contains("START flag"));
    let text = bench.try_put(CorrelationId::Text("x".to_owned()), "", 0, |_| {});
    assert!(text.unwrap_err().message.contains("for sequence x to model"));
    bench.state.close();
    assert!(bench.refused(8, START).contains("unloaded"));
}

#[test]
fn requests_that_cannot_be_in_a_sequence_are_refused() {
    let of = |text: &str, id: CorrelationId, size| {
        let policy = Policy::new(&batching(4, text), 4, Vec::new(), false);
        let request = Request { correlation_id: id, flags: START, ..Request::default() };
        policy.check(&request, "m", size).map_err(|failure| failure.message)
    };
    let (number, text) = (CorrelationId::Number, |text: &str| CorrelationId::Text(text.to_owned()));
    assert_eq!(of(CONTROLS, number(1), 1), Ok(()));
    for (given, id, size, words) in [
        ("", number(1), 2, "must specify batch-size 1"),
        ("", number(0), 1, "non-zero or non-empty correlation ID"),
        ("", text(""), 1, "non-zero or non-empty correlation ID"),
        (CONTROLS, text("x"), 1, "'CORRID' data-type is 'BYTES', but model 'm' expects 'UINT32'"),
        (CONTROLS, number(1 << 32), 1, "correlation ID 4294967296 is too great"),
    ] {
        let message = of(given, id, size).unwrap_err();
        assert!(message.contains(words), "{message}");
    }
    let texts = CONTROLS.replace("TYPE_UINT32", "TYPE_STRING");
    assert_eq!(of(&texts, text("x"), 1), Ok(()));
    assert!(
        of(&texts, number(1), 1).unwrap_err().contains("'UINT64', but model 'm' expects 'BYTES'")
    );
    let policy = Policy::new(&batching(4, &texts), 4, Vec::new(), false);
    let mut request = Request { correlation_id: text("x"), ..Request::default() };
    policy.controls.add(&mut request, true);
    assert_eq!(request.inputs[3].data, encode_bytes([&b"x"[..]]));
}

#[test]
fn an_idle_sequence_loses_its_place() {
    let mut bench = Bench::new(1, 1, "max_sequence_idle_microseconds: 100000");
    bench.put(1, "a", START);
    bench.put(2, "b", START);
    // It is not idle while it waits or runs.
    bench.wait(150);
    assert_eq!(bench.batch(0), ["a"]);
    bench.wait(150);
    assert!(bench.batch(0).is_empty());
    assert_eq!(bench.later(0), Some(100));
    bench.wait(60);
    bench.put(1, "a2", 0);
    assert_eq!(bench.batch(0), ["a2"]);
    bench.wait(10);
    assert!(bench.batch(0).is_empty());
    bench.wait(100);
    assert_eq!(bench.batch(0), ["b"]);
    assert!(bench.refused(1, 0).contains("START flag"));
}

#[test]
fn a_sequence_that_starts_again_goes_on_in_its_place() {
    let mut bench = Bench::new(2, 1, "");
    bench.put(1, "a", START);
    bench.put(2, "b", START);
    bench.put(1, "again", START);
    assert_eq!([bench.batch(0), bench.batch(0)], [vec!["a", "b"], vec!["again"]]);
}

#[test]
fn two_sequences_of_one_id_are_served_one_after_the_other() {
    let mut bench = Bench::new(2, 1, "");
    for (name, flags) in [("a1", START), ("a2", END), ("A1", START), ("A2", END)] {
        bench.put(1, name, flags);
    }
    bench.put(2, "b", START);
    bench.put(3, "c", BOTH);
    assert_eq!(bench.batch(0), ["a1", "b"]);
    assert_eq!(bench.batch(0), ["a2"]);
    // Others who wait for a place come first.
    assert_eq!([bench.batch(0), bench.batch(0), bench.batch(0)], [["c"], ["A1"], ["A2"]]);
}

#[test]
fn a_cancelled_request_ends_its_sequence() {
    let mut bench = Bench::new(1, 1, "");
    for (id, name, flags) in
        [(1, "a1", START), (1, "a2", END), (1, "A", BOTH), (2, "b", START), (3, "c", START)]
    {
        bench.put(id, name, flags);
    }
    ["a1", "b"].iter().for_each(|name| bench.named(name).pending.cancel());
    assert_eq!(bench.batch(0), ["c"]);
    for name in ["a1", "a2", "b"] {
        assert_eq!(bench.failure(name), Some(Code::Cancelled), "{name}");
    }
    assert_eq!((bench.failure("A"), bench.failure("c")), (None, None));
    assert!(bench.refused(2, 0).contains("START flag"));
    // It need not wait for a place to hear of it.
    bench.put(4, "d", START);
    bench.named("d").pending.cancel();
    assert!(bench.batch(0).is_empty());
    assert_eq!(bench.failure("d"), Some(Code::Cancelled));
    bench.put(3, "c2", 0);
    bench.named("c2").pending.cancel();
    assert_eq!(bench.batch(0), ["A"]);
    assert_eq!(bench.failure("c2"), Some(Code::Cancelled));
}

#[test]
fn a_sequence_waits_for_a_place_as_long_as_its_requests_may() {
    let mut bench = Bench::new(1, 1, "max_sequence_idle_microseconds: 1000000");
    bench.put(1, "a", START);
    bench.put(2, "b", START);
    let deadline = bench.now + Duration::from_millis(30);
    let late = |queued: &mut Queued| queued.deadline = Some(deadline);
    let put = bench.try_put(CorrelationId::Number(2), "late", END, late);
    // A sleeping instance must know when to look again.
    assert_eq!(put.unwrap(), Concerned::All);
    bench.put(2, "B", START);
    assert_eq!(bench.batch(0), ["a"]);
    assert!(bench.batch(0).is_empty());
    assert_eq!(bench.later(0), Some(30));
    bench.wait(30);
    assert_eq!(bench.later(0), Some(970));
    assert_eq!(
        [bench.failure("b"), bench.failure("late"), bench.failure("B")],
        [Some(Code::Unavailable), Some(Code::Unavailable), None]
    );
    // A place is enough: its requests do not expire there.
    bench.put(1, "end", END);
    let deadline = bench.now;
    let late = |queued: &mut Queued| queued.deadline = Some(deadline);
    assert_eq!([bench.batch(0), bench.batch(0)], [["end"], ["B"]]);
    assert_eq!(
        bench.try_put(CorrelationId::Number(2), "B2", END, late).unwrap(),
        Concerned::One(0)
    );
    assert_eq!(bench.batch(0), ["B2"]);
}

#[test]
fn places_that_are_used_enough_do_not_wait() {
    let text = "direct { max_queue_delay_microseconds: 50000 minimum_slot_utilization: 0.5 }";
    let mut bench = Bench::new(4, 1, text);
    bench.put(1, "a", START);
    assert_eq!(bench.later(0), Some(50));
    bench.wait(20);
    assert_eq!(bench.later(0), Some(30));
    bench.put(2, "b", START);
    assert_eq!(bench.batch(0), ["a", "b"]);
    bench.put(2, "b2", 0);
    bench.wait(50);
    assert_eq!(bench.batch(0), ["", "b2"]);
    // Nobody else comes to a model that ends.
    bench.put(1, "a2", 0);
    bench.state.close();
    assert_eq!(bench.batch(0), ["a2"]);
}

#[test]
fn who_does_not_fit_the_oldest_waits_in_its_place() {
    let mut bench = Bench::new(4, 1, "");
    let wide = |queued: &mut Queued| queued.request.inputs = vec![input(2)];
    bench.try_put(CorrelationId::Number(1), "wide", START, wide).unwrap();
    for (id, name) in [(2, "b"), (3, "c")] {
        bench.put(id, name, START);
    }
    bench.wait(1);
    assert_eq!(bench.batch(0), ["wide"]);
    bench.try_put(CorrelationId::Number(1), "wide again", 0, wide).unwrap();
    assert_eq!(bench.batch(0), ["", "b", "c"]);
    assert_eq!(bench.batch(0), ["wide again"]);
}

#[test]
fn the_oldest_requests_of_all_sequences_are_a_batch() {
    let mut bench = Bench::new(2, 1, "oldest { max_candidate_sequences: 3 }");
    for (id, name, flags) in
        [(1, "a1", START), (1, "a2", 0), (2, "b1", START), (3, "c1", START), (4, "d1", BOTH)]
    {
        bench.put(id, name, flags);
    }
    assert_eq!(bench.batch(0), ["a1", "b1"]);
    // A sequence has one request in a batch, and queues anew for the next.
    bench.put(1, "a3", END);
    assert_eq!(bench.batch(0), ["c1", "a2"]);
    assert_eq!(bench.batch(0), ["a3"]);
    assert_eq!(bench.batch(0), ["d1"]);
    assert!(bench.batch(0).is_empty());
}

#[test]
fn the_oldest_wait_for_preferred_sizes() {
    let text = "oldest { preferred_batch_size: 2 max_candidate_sequences: 8 max_queue_delay_microseconds: 40000 }";
    let mut bench = Bench::new(4, 1, text);
    bench.put(1, "a", START);
    assert_eq!(bench.later(0), Some(40));
    bench.put(2, "b", START);
    bench.put(3, "c", START);
    assert_eq!(bench.batch(0), ["a", "b"]);
    bench.state.served(0, bench.now);
    bench.wait(15);
    assert_eq!(bench.later(0), Some(25));
    bench.wait(25);
    assert_eq!(bench.batch(0), ["c"]);
    // A model without batches gets one request at a time, of many sequences.
    let mut bench = Bench::new(0, 1, "oldest { max_candidate_sequences: 2 }");
    for (id, name) in [(1, "a"), (2, "b"), (3, "c")] {
        bench.put(id, name, BOTH);
    }
    assert_eq!([bench.batch(0), bench.batch(0), bench.batch(0)], [["a"], ["b"], ["c"]]);
}

#[test]
fn a_closed_model_serves_who_waits_and_forgets_the_others() {
    let mut bench = Bench::new(1, 1, "");
    bench.put(1, "a", START);
    bench.put(2, "b", START);
    assert_eq!(bench.batch(0), ["a"]);
    bench.state.close();
    assert_eq!(bench.batch(0), ["b"]);
    assert!(bench.batch(0).is_empty() && bench.later(0).is_none());
}

/// The lock and the threads around all this.
#[test]
fn an_instance_that_waits_is_woken_and_released() {
    let batching = batching(0, "max_sequence_idle_microseconds: 60000000");
    let sequences = Arc::new(Sequences::new(&batching, 0, Vec::new(), 1, false));
    let (sender, served) = channel();
    let instance = std::thread::spawn({
        let sequences = sequences.clone();
        move || {
            while let Some(batch) = sequences.next(0, &AtomicBool::new(false)) {
                batch.into_iter().for_each(|queued| sender.send(queued.request.flags).unwrap());
            }
        }
    });
    let put = |flags| {
        let correlation_id = CorrelationId::Number(1);
        let request = Request { correlation_id, flags, ..Request::default() };
        let put = sequences.put("m", request, Arc::new(Pending::new(Box::new(|_| ()), false)), 1);
        put.map_err(|refusal| refusal.failure("m"))
    };
    let patience = Duration::from_secs(60);
    for flags in [START, 0, END, BOTH] {
        put(flags).unwrap();
        assert_eq!(served.recv_timeout(patience), Ok(flags));
    }
    assert_eq!(put(0).unwrap_err().code, Code::InvalidArgument);
    sequences.close();
    instance.join().unwrap();
    assert_eq!((put(START).unwrap_err().code, sequences.len()), (Code::Unavailable, 0));
}
