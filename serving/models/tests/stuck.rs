//! Models that do not end, that do not react, and that take too much memory: what becomes of them, and of the others.

mod common;

use common::{
    FLOATS, Repository, answer, decoupled, events, failure, floats, parameter, response, until,
};
use hydrozoa_models::{Code, Failure, LoadError, Model, ModelState, Response};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Does what the request's number says, and answers with how many instances there were before this one.
const MODEL: &str = "
import asyncio, ctypes, os, time

class TritonPythonModel:
    def initialize(self, args):
        self.log = os.path.join(args['model_repository'], 'log')
        with open(self.log, 'a') as log:
            log.write('i')
        self.number = os.path.getsize(self.log) - 1
        self.leaked = []
        WHEN_INITIALIZED

    def answer(self, requests):
        array = np.array([self.number], np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array.copy())]) for _ in requests]

    def case(self, requests):
        return int(pb_utils.get_input_tensor_by_name(requests[0], 'IN').as_numpy().ravel()[0])

    def execute(self, requests):
        case = self.case(requests)
        while case == 1:
            pass
        if case == 2:
            time.sleep(20)
        if case == 3:
            ctypes.PyDLL(None).sleep(20)
        while case == 4:
            try:
                while True:
                    time.sleep(0.01)
            except BaseException:
                pass
        while case == 5:
            self.leaked.append(bytes(1 << 20))
        if case == 6:
            bytes(1 << 40)
        return self.answer(requests)
";

/// The model, which does this, too, when it is initialized.
fn model(when_initialized: &str) -> String {
    MODEL.replace("WHEN_INITIALIZED", when_initialized)
}

fn limited(seconds: &str) -> String {
    format!("{FLOATS}{}", parameter("EXECUTION_LIMIT", seconds))
}

/// Calls a model again and again, until it is dropped.
struct Load {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<usize>>,
}

impl Load {
    fn on(model: &Arc<Model>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (model, ends) = (model.clone(), is_over.clone());
        let thread = thread::spawn(move || {
            let mut count = 0;
            while !ends.load(Ordering::Relaxed) {
                assert_eq!(answer(&model, floats(&[0.0])), [0.0]);
                count += 1;
            }
            count
        });
        Self { is_over, thread: Some(thread) }
    }

    /// How many answers there were, all of them right.
    fn end(mut self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// A file that models wait for. It comes at the latest when the test ends.
struct Gate(PathBuf);

impl Drop for Gate {
    fn drop(&mut self) {
        drop(fs::write(&self.0, ""));
    }
}

fn with(case: u32, model: &Model) -> Result<Response, Failure> {
    response(model, floats(&[case as f32]))
}

#[test]
fn a_model_that_loops_is_interrupted_and_goes_on() {
    let repository = Repository::new();
    let healthy = repository.model("healthy", FLOATS, &model(""));
    let code = model("");
    let model = repository.model("loops", &limited("0.2"), &code);
    let load = Load::on(&healthy);
    for _ in 0..3 {
        let failure = with(1, &model).unwrap_err();
        assert_eq!(failure.code, Code::Internal);
        assert_eq!(
            failure.message,
            "`execute` of model 'loops' (instance 'loops_0_0') has exceeded its limit of 200ms, and was interrupted"
        );
        assert_eq!(answer(&model, floats(&[0.0])), [0.0], "the instance is the first still");
    }
    assert!(load.end() > 0);
    assert!(model.is_ready());
    assert_eq!((model.replacements(), model.statistics().failed), (0, 3));
}

#[test]
fn an_instance_that_does_not_react_is_replaced() {
    let repository = Repository::new();
    let code = model("");
    let healthy = repository.model("healthy", FLOATS, &code);
    // In C without the GIL, in C with it, and in Python that catches everything.
    for case in [2, 3, 4] {
        let name = format!("stuck{case}");
        let model = repository.model(&name, &limited("0.3"), &code);
        let load = Load::on(&healthy);
        let server = &repository.server;
        assert!(server.is_ready(&name, "") && server.is_ready(&name, "1"));
        let (other, ready) = (model.clone(), Arc::new(AtomicBool::new(true)));
        let seen = ready.clone();
        let watches = thread::spawn(move || {
            until("unready", || !other.is_ready());
            seen.store(false, Ordering::SeqCst);
        });
        let failure = with(case, &model).unwrap_err();
        assert!(
            failure.message.ends_with("does not react to the interrupt; the instance is replaced"),
            "{failure}"
        );
        // The next instance serves a request that waits meanwhile.
        assert_eq!(answer(&model, floats(&[0.0])), [1.0], "case {case}");
        watches.join().unwrap();
        assert!(!ready.load(Ordering::SeqCst));
        until("ready again", || server.is_ready(&name, ""));
        assert_eq!((model.replacements(), model.problem()), (1, None));
        let restarts: u64 = model.instances().iter().map(|instance| instance.restarts).sum();
        assert_eq!(restarts, 1);
        assert!(load.end() > 0);
    }
    assert!(healthy.is_ready());
}

#[test]
fn readiness_tells_of_a_stuck_instance_within_a_second_and_others_go_on() {
    let repository = Repository::new();
    let gate = repository.path().join("gate");
    // Another instance cannot be initialized while there is a gate.
    let waits =
        format!("if self.number > 1 and os.path.exists({gate:?}): raise RuntimeError('not yet')");
    let config = format!("{} instance_group {{ count: 2 }}", limited("0.2"));
    let model = repository.model("two", &config, &model(&waits));
    fs::write(&gate, "").unwrap();
    let server = &repository.server;
    let begin = Instant::now();
    with(2, &model).unwrap_err();
    let unready = begin.elapsed();
    assert!(!server.is_ready("two", "") && !server.is_ready("two", "1"));
    assert!(unready < Duration::from_millis(1200), "{unready:?} behind a limit of 200 ms");
    let state = || server.index()[0].state.clone();
    until(
        "the reason",
        || matches!(state(), ModelState::Impaired(why) if why.contains("RuntimeError: not yet")),
    );
    // The other instance serves, and nobody is refused.
    for _ in 0..20 {
        assert!(answer(&model, floats(&[0.0]))[0] < 2.0);
    }
    assert_eq!(model.replacements(), 0);
    fs::remove_file(&gate).unwrap();
    until("ready again", || model.is_ready());
    assert_eq!((state(), model.replacements()), (ModelState::Ready, 1));
}

#[test]
fn a_model_without_an_instance_refuses_until_it_has_one() {
    let repository = Repository::new();
    let gate = repository.path().join("gate");
    let waits = format!("if os.path.exists({gate:?}): raise RuntimeError('not yet')");
    let model = repository.model("one", &limited("0.2"), &model(&waits));
    fs::write(&gate, "").unwrap();
    with(2, &model).unwrap_err();
    until("the refusal", || model.problem().is_some_and(|why| why.contains("not yet")));
    let failure = with(0, &model).unwrap_err();
    assert_eq!(failure.code, Code::Unavailable);
    assert!(failure.message.contains("instance 'one_0_0' of model 'one': it cannot be replaced"));
    assert!(failure.message.contains("RuntimeError: not yet"), "{failure}");
    fs::remove_file(&gate).unwrap();
    until("ready again", || model.is_ready());
    assert!(answer(&model, floats(&[0.0]))[0] >= 2.0);
}

#[test]
fn a_stuck_model_is_unloaded() {
    let repository = Repository::new();
    let finalizes = "
    def finalize(self):
        time.sleep(60)
";
    let code = model("") + finalizes;
    let config = format!("{}{}", limited("0.2"), parameter("INITIALIZATION_LIMIT", "8"));
    let model = repository.model("m", &config, &code);
    with(2, &model).unwrap_err();
    until("ready again", || model.is_ready());
    let begin = Instant::now();
    repository.server.unload("m").unwrap();
    assert!(begin.elapsed() < Duration::from_secs(40), "{:?}", begin.elapsed());
}

#[test]
fn a_model_that_does_not_initialize_in_time_is_not_loaded() {
    let repository = Repository::new();
    let config = format!("{FLOATS}{}", parameter("INITIALIZATION_LIMIT", "4"));
    for (name, code, words) in [
        (
            "loops",
            model("\n        while True: pass"),
            "`initialize` has exceeded its limit of 4s; raise",
        ),
        (
            "sleeps",
            model("time.sleep(20)"),
            "`initialize` has exceeded its limit of 4s, and does not react",
        ),
        (
            "imports",
            "import time\ntime.sleep(20)".to_owned(),
            "`auto_complete_config` has exceeded its limit of 4s, and does not react",
        ),
    ] {
        repository.write(name, 1, &config, &code);
        let error = repository.server.load(name).unwrap_err();
        assert!(matches!(error, LoadError::Late { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(name), "{text}");
        assert!(text.contains("HYDROZOA_INITIALIZATION_LIMIT"), "{text}");
    }
}

/// A model whose `execute` is a coroutine.
fn coroutine(body: &str) -> String {
    let code = model("").replace("def execute", "def unused");
    format!(
        "{code}\n    async def execute(self, requests):\n        case = self.case(requests)\n{body}"
    )
}

#[test]
fn a_coroutine_that_takes_too_long_is_cancelled_or_interrupted() {
    let repository = Repository::new();
    let body = "
        if case == 1:
            await asyncio.sleep(1000)
        if case == 2:
            while True: pass
        if case == 3:
            await asyncio.gather(asyncio.sleep(1000), self.loops())
        if case == 4:
            time.sleep(20)
        while case == 5:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                pass
        return self.answer(requests)

    async def loops(self):
        while True: pass
";
    let model = repository.model("m", &limited("0.3"), &coroutine(body));
    let failure = with(1, &model).unwrap_err();
    assert!(failure.message.ends_with("300ms, and was interrupted"), "{failure}");
    assert_eq!(answer(&model, floats(&[0.0])), [0.0]);
    for case in [2, 3] {
        // On a busy machine the loop may not get the processor in time. Then it counts as stuck.
        let is_interrupted = (0..10).any(|_| {
            let failure = with(case, &model).unwrap_err();
            assert!(failure.message.contains("has exceeded its limit of 300ms"), "{failure}");
            let number = model.replacements() as f32;
            assert!(answer(&model, floats(&[0.0]))[0] >= number, "behind case {case}");
            failure.message.ends_with("and was interrupted")
        });
        assert!(is_interrupted, "case {case}");
    }
    let before = model.replacements();
    for case in [4, 5] {
        let failure = with(case, &model).unwrap_err();
        assert!(failure.message.ends_with("the instance is replaced"), "{case}: {failure}");
        answer(&model, floats(&[0.0]));
    }
    assert_eq!(model.replacements(), before + 2);
}

#[test]
fn a_decoupled_coroutine_in_the_background_has_the_limit_too() {
    let repository = Repository::new();
    let body = "
        if case == 1:
            await asyncio.sleep(1000)
        if case == 2:
            time.sleep(20)
        sender = requests[0].get_response_sender()
        sender.send(self.answer(requests)[0])
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
";
    let config = decoupled() + &parameter("EXECUTION_LIMIT", "0.3");
    let model = repository.model("m", &config, &coroutine(body));
    let last = |case: u32| {
        let response = events(&model, floats(&[case as f32])).pop().unwrap().response;
        response.unwrap().unwrap_err().message
    };
    let words = last(1);
    assert!(words.ends_with("300ms, and was interrupted"), "{words}");
    assert_eq!(events(&model, floats(&[0.0])).len(), 2);
    assert_eq!(model.replacements(), 0);
    // Further requests are taken meanwhile, and fail with the instance or are served by the next.
    let words = last(2);
    assert!(words.ends_with("the instance is replaced"), "{words}");
    until("ready again", || model.is_ready());
    assert_eq!(events(&model, floats(&[0.0])).len(), 2);
    assert_eq!(model.replacements(), 1);
}

#[test]
fn a_wait_for_another_model_ends_at_the_limit() {
    let repository = Repository::new();
    let gate = repository.path().join("gate");
    let opens = Gate(gate.clone());
    let slow = model("").replace(
        "case = self.case(requests)",
        &format!("case = 0\n        while not os.path.exists({gate:?}): time.sleep(0.01)"),
    );
    let slow = repository.model("slow", FLOATS, &slow);
    let call = "pb_utils.InferenceRequest(model_name='slow', requested_output_names=['OUT'], inputs=[pb_utils.Tensor('IN', \
                np.zeros((1, 1), np.float32))])";
    let calls = model("").replace(
        "while case == 1:\n            pass",
        &format!(
            "if case == 1: return [{call}.exec()]\n        if case == 2: self.load()\n        if case == 3:\n            \
             try: {call}.exec()\n            except BaseException: {call}.exec()"
        ),
    ) + "
    def load(self):
        pb_utils.load_model('loads')
";
    let blocking = repository.model("blocking", &limited("0.3"), &calls);
    let loads = "import os, time\n".to_owned()
        + &format!("while not os.path.exists({gate:?}): time.sleep(0.01)\n")
        + &model("");
    repository.write("loads", 1, FLOATS, &loads);
    for case in [1, 2, 3] {
        let failure = with(case, &blocking).unwrap_err();
        assert!(failure.message.ends_with("300ms, and was interrupted"), "{case}: {failure}");
    }
    let body = format!(
        "
        if case == 1: return [await {call}.async_exec()]
        if case == 2: return await asyncio.gather({call}.async_exec(), {call}.async_exec())
        if case == 3: return [{call}.exec()]
        return self.answer(requests)
"
    );
    let concurrent = repository.model("concurrent", &limited("0.3"), &coroutine(&body));
    // More than the loop's executor has threads: none of them waits on.
    for case in [1, 2, 3, 1, 2].into_iter().cycle().take(40) {
        let failure = with(case, &concurrent).unwrap_err();
        assert!(failure.message.ends_with("300ms, and was interrupted"), "{case}: {failure}");
    }
    assert_eq!((blocking.replacements(), concurrent.replacements()), (0, 0));
    drop(opens);
    assert_eq!(answer(&slow, floats(&[0.0])), [0.0]);
    assert_eq!(with(1, &concurrent).unwrap().outputs.len(), 1);
    assert_eq!(with(1, &blocking).unwrap().outputs.len(), 1);
}

#[test]
fn a_model_that_leaks_meets_its_ceiling_and_is_replaced() {
    let repository = Repository::new();
    let code = model("");
    let healthy = repository.model("healthy", FLOATS, &code);
    let config = format!("{FLOATS}{}", parameter("MEMORY_LIMIT", "100000000"));
    let model = repository.model("leaks", &config, &code);
    let load = Load::on(&healthy);
    // Too much at once does no harm to the instance.
    assert!(failure(&model, floats(&[6.0])).contains("message: MemoryError"));
    assert_eq!(answer(&model, floats(&[0.0])), [0.0]);
    let failure = with(5, &model).unwrap_err();
    assert!(failure.message.contains("MemoryError"), "{failure}");
    assert_eq!(answer(&model, floats(&[0.0])), [1.0], "another instance");
    until("ready again", || model.is_ready());
    assert!(load.end() > 0);
    assert!(healthy.is_ready() && healthy.replacements() == 0);
}

#[test]
fn sequences_of_a_stuck_instance_end() {
    let repository = Repository::new();
    let code = model("");
    let config = limited("0.3") + "sequence_batching { }";
    let model = repository.model("m", &config, &code);
    let request = |case: f32, flags| {
        let mut request = floats(&[case]);
        request.correlation_id = hydrozoa_models::CorrelationId::Number(7);
        request.flags = flags;
        request
    };
    assert_eq!(answer(&model, request(0.0, 1)), [0.0]);
    assert!(failure(&model, request(2.0, 0)).ends_with("the instance is replaced"));
    assert!(failure(&model, request(0.0, 0)).contains("must specify the START flag"));
    assert_eq!(answer(&model, request(0.0, 1)), [1.0]);
}
