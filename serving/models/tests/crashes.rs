//! Models whose native code crashes: what becomes of their requests, of their instances, and of other models.

mod common;

use common::{FLOATS, Repository, answer, decoupled, events, floats, parameter, response, until};
use hydrozoa_models::{Code, CorrelationId, LoadError, Model, ModelState, Request};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Does what the request's number says, and answers with how many instances there were before this one.
const MODEL: &str = "
import asyncio, ctypes, os, threading, time

def crash():
    ctypes.string_at(0)

class TritonPythonModel:
    def initialize(self, args):
        self.log = os.path.join(args['model_repository'], 'log')
        with open(self.log, 'a') as log:
            log.write('i')
        self.number = os.path.getsize(self.log) - 1
        WHEN_INITIALIZED

    def answer(self, requests):
        array = np.array([self.number], np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array.copy())]) for _ in requests]

    def case(self, requests):
        return int(pb_utils.get_input_tensor_by_name(requests[0], 'IN').as_numpy().ravel()[0])

    def execute(self, requests):
        case = self.case(requests)
        if case == 1:
            crash()
        if case == 2:
            os.abort()
        if case == 3:
            threading.Thread(target=crash).start()
            time.sleep(60)
        if case == 4:
            threading.Timer(0.05, crash).start()
        return self.answer(requests)
";

/// The model, which does this, too, when it is initialized.
fn model(when_initialized: &str) -> String {
    MODEL.replace("WHEN_INITIALIZED", when_initialized)
}

fn contained() -> String {
    format!("{FLOATS}{}", parameter("CONTAIN_CRASHES", "true"))
}

fn case(number: u32) -> Request {
    floats(&[number as f32])
}

/// Sends a request that crashes, and returns the words for its client.
fn crash(model: &Model, number: u32) -> String {
    let failure = response(model, case(number)).unwrap_err();
    assert_eq!(failure.code, Code::Internal, "{failure}");
    failure.message
}

fn crashes(model: &Model) -> u64 {
    model.instances().iter().map(|instance| instance.crashes).sum()
}

/// Calls a model again and again until it is dropped, and every answer is right.
struct Load {
    is_over: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Load {
    fn on(model: &Arc<Model>) -> Self {
        let (is_over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (model, ends, counts) = (model.clone(), is_over.clone(), count.clone());
        let thread = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                assert_eq!(answer(&model, case(0)), [0.0]);
                counts.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { is_over, count, thread: Some(thread) }
    }

    fn end(mut self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.count.load(Ordering::Relaxed)
    }
}

/// A line of Python that fails while there is a gate, from the instance of this number on.
fn waits(gate: &Path, number: u32) -> String {
    format!(
        "if self.number >= {number} and os.path.exists({gate:?}): raise RuntimeError('not yet')"
    )
}

#[test]
fn a_crash_fails_its_request_and_another_instance_takes_its_place() {
    let repository = Repository::new();
    let healthy = repository.model("healthy", FLOATS, &model(""));
    let load = Load::on(&healthy);
    let crashing = repository.model("crashing", &contained(), &model(""));
    let words = crash(&crashing, 1);
    let head = "model 'crashing' (instance 'crashing_0_0') has crashed: SIGSEGV in interpreter 0 (index 0)";
    assert!(words.starts_with(head), "{words}");
    assert!(words.contains("string_at+0x") && words.contains(" in _ctypes."), "{words}");
    assert!(!words.contains('/') && !words.contains('\n'), "a client sees no folders: {words}");
    assert_eq!(answer(&crashing, case(0)), [1.0], "another instance");
    let words = crash(&crashing, 2);
    assert!(words.contains("has crashed: SIGABRT in interpreter 0 (replacement 1)"), "{words}");
    assert_eq!(answer(&crashing, case(0)), [2.0]);
    until("ready again", || crashing.is_ready());
    assert_eq!((crashing.replacements(), crashes(&crashing)), (2, 2));
    assert_eq!((crashing.statistics().failures.model, crashing.statistics().success), (2, 2));
    assert!(load.end() > 0);
    assert!(healthy.is_ready() && healthy.replacements() == 0);
}

#[test]
fn readiness_tells_of_a_crash_within_a_second_and_other_instances_go_on() {
    let repository = Repository::new();
    let gate = repository.path().join("gate");
    let config = format!("{} instance_group {{ count: 2 }}", contained());
    let model = repository.model("two", &config, &model(&waits(&gate, 2)));
    fs::write(&gate, "").unwrap();
    let (begin, server) = (Instant::now(), &repository.server);
    crash(&model, 1);
    assert!(!server.is_ready("two", ""));
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    let state = || server.index()[0].state.clone();
    until("the reason", || matches!(state(), ModelState::Impaired(why) if why.contains("not yet")));
    for _ in 0..20 {
        assert!(answer(&model, case(0))[0] < 2.0);
    }
    fs::remove_file(&gate).unwrap();
    until("ready again", || model.is_ready());
    assert_eq!((state(), model.replacements()), (ModelState::Ready, 1));
}

#[test]
fn a_crash_on_a_thread_of_the_model_is_found_without_a_request() {
    let repository = Repository::new();
    let model = repository.model("threads", &contained(), &model(""));
    // The thread that executes waits in C.
    let words = crash(&model, 3);
    assert!(words.contains("(instance 'threads_0_0') has crashed: SIGSEGV in "), "{words}");
    assert_eq!(answer(&model, case(0)), [1.0]);
    // Nobody executes when it comes.
    assert_eq!(answer(&model, case(4)), [1.0]);
    until("the crash", || crashes(&model) == 2);
    until("ready again", || model.is_ready());
    assert_eq!(answer(&model, case(0)), [2.0]);
}

#[test]
fn requests_that_a_crash_finds_in_the_background_fail_too() {
    let repository = Repository::new();
    let config = decoupled() + &parameter("CONTAIN_CRASHES", "true");
    let code = model("").replace("def execute", "def unused")
        + "
    async def execute(self, requests):
        case = self.case(requests)
        if case == 1:
            crash()
        if case == 2:
            await asyncio.sleep(1000)
        sender = requests[0].get_response_sender()
        sender.send(self.answer(requests)[0])
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
";
    let model = repository.model("m", &config, &code);
    let last = |model: &Model, number| {
        let response = events(model, case(number)).pop().unwrap().response;
        response.unwrap().unwrap_err().message
    };
    let waiting = {
        let model = model.clone();
        thread::spawn(move || last(&model, 2))
    };
    until("the first request", || model.statistics().taken == 1);
    let words = last(&model, 1);
    assert!(words.contains("has crashed: SIGSEGV in "), "{words}");
    assert_eq!(waiting.join().unwrap(), words);
    assert_eq!(events(&model, case(0)).len(), 2);
}

#[test]
fn a_model_that_crashes_again_and_again_is_given_up_until_it_is_loaded_again() {
    let repository = Repository::new();
    let config = contained() + &parameter("CRASH_LIMIT", "4");
    let model = repository.model("m", &config, &model(""));
    let began = Instant::now();
    for _ in 0..4 {
        crash(&model, 1);
    }
    // 0, 200 and 400 ms are between four crashes.
    assert!(began.elapsed() > Duration::from_millis(600), "{:?}", began.elapsed());
    until("the end", || model.problem().is_some_and(|why| why.contains("given up")));
    let failure = response(&model, case(0)).unwrap_err();
    assert_eq!(failure.code, Code::Unavailable);
    let words = "instance 'm_0_0' of model 'm': given up, since it has crashed 4 times in a row";
    assert!(failure.message.starts_with(words), "{failure}");
    let server = &repository.server;
    let ModelState::Impaired(why) = server.index()[0].state.clone() else { panic!("it is ready") };
    assert!(why.starts_with(words) && why.ends_with("load the model again"), "{why}");
    server.load("m").unwrap();
    assert_eq!(server.index()[0].state, ModelState::Ready);
    assert_eq!(answer(&server.model("m", None).unwrap(), case(0)), [4.0]);
}

#[test]
fn a_model_that_pauses_after_crashes_refuses_its_requests() {
    let repository = Repository::new();
    let config = contained() + &parameter("CRASH_LIMIT", "0");
    let model = repository.model("m", &config, &model(""));
    // The pause after the fifth crash is the first of more than a second.
    (0..4).for_each(|_| drop(crash(&model, 1)));
    assert_eq!(answer(&model, case(0)), [4.0]);
    crash(&model, 1);
    until("the pause", || model.problem().is_some_and(|why| why.contains("started again 1.6s")));
    let failure = response(&model, case(0)).unwrap_err();
    assert_eq!(failure.code, Code::Unavailable, "{failure}");
    until("ready again", || model.is_ready());
    assert_eq!(answer(&model, case(0)), [5.0]);
}

#[test]
fn a_model_that_crashes_while_it_loads_is_not_loaded() {
    let repository = Repository::new();
    let healthy = repository.model("healthy", FLOATS, &model(""));
    for (name, code) in [
        ("initializes", model("crash()")),
        ("imports", format!("{}\ncrash()\n", model(""))),
        ("thread", model("threading.Thread(target=crash).start(); time.sleep(60)")),
    ] {
        repository.write(name, 1, &contained(), &code);
        let error = repository.server.load(name).unwrap_err();
        assert!(matches!(error, LoadError::Crashed { .. }), "{error}");
        let words = format!("model `{name}`, version 1: its code has crashed: SIGSEGV in ");
        assert!(error.to_string().starts_with(&words), "{error}");
    }
    assert_eq!(answer(&healthy, case(0)), [0.0]);
}

#[test]
fn an_instance_whose_next_one_crashes_at_its_start_is_given_up() {
    let repository = Repository::new();
    let gate = repository.path().join("gate");
    let crashes_then = format!("if os.path.exists({gate:?}): crash()");
    let model = repository.model("m", &contained(), &model(&crashes_then));
    fs::write(&gate, "").unwrap();
    crash(&model, 1);
    until("the end", || model.problem().is_some_and(|why| why.contains("given up")));
    assert_eq!((crashes(&model), model.replacements()), (5, 0));
    fs::remove_file(&gate).unwrap();
    repository.server.load("m").unwrap();
    assert!(repository.server.is_ready("m", ""));
}

#[test]
fn a_crash_in_finalize_ends_the_model_and_nothing_else() {
    let repository = Repository::new();
    let healthy = repository.model("healthy", FLOATS, &model(""));
    let code = model("") + "\n    def finalize(self):\n        crash()\n";
    drop(repository.model("m", &contained(), &code));
    repository.server.unload("m").unwrap();
    assert_eq!(answer(&healthy, case(0)), [0.0]);
}

#[test]
fn sequences_of_a_crashed_instance_end() {
    let repository = Repository::new();
    let model = repository.model("m", &(contained() + "sequence_batching { }"), &model(""));
    let request = |number, flags| {
        let correlation_id = CorrelationId::Number(7);
        Request { correlation_id, flags, ..case(number) }
    };
    assert_eq!(answer(&model, request(0, 1)), [0.0]);
    let failure = response(&model, request(1, 0)).unwrap_err();
    assert!(failure.message.contains("has crashed: "), "{failure}");
    let failure = response(&model, request(0, 0)).unwrap_err();
    assert!(failure.message.contains("must specify the START flag"), "{failure}");
    assert_eq!(answer(&model, request(0, 1)), [1.0]);
}
