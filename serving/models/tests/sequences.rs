//! Models that keep state by sequence, and warm-up.

mod common;

use common::{FLOATS, Repository, answer, as_floats, events, failure, floats};
use hydrozoa_models::{CorrelationId, LoadError, Model, Request};
use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

const START: u32 = 1;
const END: u32 = 2;

/// Longer than any test waits.
const LONG: &str = "max_sequence_idle_microseconds: 60000000";

fn of(id: u64, flags: u32, value: f32) -> Request {
    Request { correlation_id: CorrelationId::Number(id), flags, ..floats(&[value]) }
}

/// Keeps a sum for each correlation id. Answers with the sum and a number of the instance.
const SUMS: &str = "
class TritonPythonModel:
    def initialize(self, args):
        self.instance = float(args['model_instance_name'].rsplit('_', 1)[1])
        self.sums = {}

    def execute(self, requests):
        # Where no request is, in a place of a batch, the correlation id is 0.
        ids = [request.correlation_id() for request in requests if request.correlation_id()]
        assert len(set(ids)) == len(ids) > 0, ids
        return [self.answer(request) for request in requests]

    def answer(self, request):
        sequence, flags = request.correlation_id(), request.flags()
        if sequence == 0:
            return pb_utils.InferenceResponse([])
        if flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            assert sequence not in self.sums
            self.sums[sequence] = 0.0
        self.sums[sequence] += pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy().sum()
        out = np.array([self.sums[sequence], self.instance], np.float32)
        if flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
            del self.sums[sequence]
        return pb_utils.InferenceResponse([pb_utils.Tensor('OUT', out)])
";

/// Runs sequences of three requests, and returns what the instances are that have served them.
fn run_sums(model: &Model, first: u64, count: u64) -> Vec<f32> {
    let run = |id: u64| {
        let flags = [START, 0, END];
        let answers: Vec<Vec<f32>> =
            flags.iter().map(|flags| answer(model, of(id, *flags, id as f32))).collect();
        let sums: Vec<f32> = answers.iter().map(|answer| answer[0]).collect();
        assert_eq!(sums, [1, 2, 3].map(|times| (times * id) as f32), "sequence {id}");
        assert!(answers.iter().all(|answer| answer[1] == answers[0][1]), "{answers:?}");
        answers[0][1]
    };
    (first..first + count).map(run).collect()
}

#[test]
fn a_model_keeps_state_by_correlation_id() {
    let repository = Repository::new();
    for (name, strategy) in [("direct", "direct { }"), ("oldest", "oldest { }")] {
        // Two instances with two places, and more clients than places.
        let config = format!(
            "sequence_batching {{ {strategy} {LONG} }}
             instance_group {{ count: 2 }} {}",
            FLOATS.replace("max_batch_size: 8", "max_batch_size: 2")
        );
        let model = repository.model(name, &config, SUMS);
        // It takes the first place, so that others begin in the other instance.
        assert_eq!(answer(&model, of(999, START, 9.0)), [9.0, 0.0]);
        let instances: Vec<f32> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..6)
                .map(|client| {
                    scope.spawn({
                        let model = &model;
                        move || run_sums(model, 1 + client * 100, 10)
                    })
                })
                .collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        assert!(instances.contains(&1.0), "{name}");
        assert_eq!(answer(&model, of(999, END, 9.0)), [18.0, 0.0]);
        // Stand-ins are counted nowhere.
        let statistics = model.statistics();
        assert_eq!((statistics.success, statistics.inferences, statistics.failed), (182, 182, 0));
        let words = "sequence 7 to model";
        assert!(failure(&model, of(7, 0, 1.0)).contains(words));
        assert!(failure(&model, floats(&[1.0])).contains("non-zero or non-empty correlation ID"));
    }
}

/// A client has all of its requests under way at once.
#[test]
fn requests_of_a_sequence_that_come_together_are_served_in_order() {
    let repository = Repository::new();
    let config = format!("sequence_batching {{ oldest {{ }} {LONG} }} {FLOATS}");
    let model = repository.model("sums", &config, SUMS);
    let (sender, answers) = channel();
    let mut tickets = Vec::new();
    for (place, flags) in [START, 0, 0, END, START, END].into_iter().enumerate() {
        for id in [1, 2, 3] {
            let sender = sender.clone();
            tickets.push(model.infer(of(id, flags, 1.0), move |event| {
                let sum = as_floats(&event.response.unwrap().unwrap().outputs[0])[0];
                sender.send((id, place, sum)).unwrap();
            }));
        }
    }
    let patience = Duration::from_secs(60);
    let mut all: Vec<_> = (0..18).map(|_| answers.recv_timeout(patience).unwrap()).collect();
    for id in [1, 2, 3] {
        let own: Vec<_> = all.iter().filter(|answer| answer.0 == id).collect();
        assert!(own.is_sorted_by_key(|answer| answer.1), "{own:?}");
    }
    all.sort_by_key(|answer| (answer.1, answer.0));
    let sums: Vec<f32> = all.iter().map(|answer| answer.2).collect();
    assert_eq!(sums, [1.0, 2.0, 3.0, 4.0, 1.0, 2.0].map(|sum| [sum; 3]).concat());
}

/// Keeps a sum for each place of the batch, as models of Triton do that look at controls alone.
const PLACES: &str = "
class TritonPythonModel:
    def initialize(self, args):
        self.sums = np.zeros(4, np.float32)

    def execute(self, requests):
        responses = []
        for place, request in enumerate(requests):
            value, start, ready, end, sequence = (
                pb_utils.get_input_tensor_by_name(request, name).as_numpy()
                for name in ('IN', 'START', 'READY', 'END', 'CORRID'))
            assert all(control.shape == (1, 1) for control in (start, ready, end, sequence))
            assert (start.dtype, ready.dtype, end.dtype) == (np.int32, np.float32, np.bool_)
            if ready[0, 0]:
                assert sequence[0, 0].decode() == request.correlation_id(), sequence
                self.sums[place] = value.sum() + (0 if start[0, 0] else self.sums[place])
            else:
                assert sequence[0, 0] == b'' and not value.any()
            out = np.array([self.sums[place], place, len(requests), end[0, 0]], np.float32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor('OUT', out)]))
        return responses
";

const CONTROLS: &str = r#"
control_input [
  { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
  { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } ] },
  { name: "END" control [ { kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] } ] },
  { name: "CORRID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } ] }
]
"#;

#[test]
fn a_model_keeps_state_by_place_and_sees_controls() {
    let repository = Repository::new();
    let config = format!(
        "sequence_batching {{ {CONTROLS} {LONG} }} {}",
        FLOATS.replace("max_batch_size: 8", "max_batch_size: 4")
    );
    let model = repository.model("places", &config, PLACES);
    let text = |id: &str, flags: u32, value: f32| Request {
        correlation_id: CorrelationId::Text(id.to_owned()),
        ..of(0, flags, value)
    };
    // The sum, the place, the places of the batch, and whether it is the end.
    assert_eq!(answer(&model, text("text a", START, 1.0)), [1.0, 0.0, 1.0, 0.0]);
    assert_eq!(answer(&model, text("text b", START, 10.0)), [10.0, 1.0, 2.0, 0.0]);
    assert_eq!(answer(&model, text("text c", START | END, 100.0)), [100.0, 2.0, 3.0, 1.0]);
    assert_eq!(answer(&model, text("text b", 0, 10.0)), [20.0, 1.0, 2.0, 0.0]);
    assert_eq!(answer(&model, text("text a", END, 1.0)), [2.0, 0.0, 1.0, 1.0]);
    assert_eq!(answer(&model, text("text d", START, 5.0)), [5.0, 0.0, 1.0, 0.0]);
    assert_eq!(answer(&model, text("text b", END, 10.0)), [30.0, 1.0, 2.0, 1.0]);
    let statistics = model.statistics();
    assert_eq!((statistics.success, statistics.executions, statistics.failed), (7, 7, 0));
    assert!(failure(&model, of(1, START, 1.0)).contains("expects 'BYTES'"));
    let mut two = text("text e", START, 0.0);
    (two.inputs[0].shape, two.inputs[0].data) = (vec![2, 1], bytes::BytesMut::zeroed(8));
    assert!(failure(&model, two).contains("must specify batch-size 1"));
}

#[test]
fn a_sequence_that_does_nothing_makes_room() {
    let repository = Repository::new();
    let config = |batching: &str| {
        let floats = FLOATS.replace("max_batch_size: 8", "").replace("[ -1 ]", "[ 1, -1 ]");
        format!("sequence_batching {{ {batching} }} {floats}")
    };
    let model = repository.model("idle", &config("max_sequence_idle_microseconds: 100000"), SUMS);
    assert_eq!(answer(&model, of(1, START, 1.0))[0], 1.0);
    // There is one place, which the first sequence has.
    assert_eq!(answer(&model, of(2, START, 2.0))[0], 2.0);
    assert!(failure(&model, of(1, 0, 1.0)).contains("must specify the START flag"));
    // A request that does not wait for so long.
    let model = repository.model("busy", &config(LONG), SUMS);
    assert_eq!(answer(&model, of(1, START, 1.0))[0], 1.0);
    let short = Request { timeout: 1000, ..of(2, START, 2.0) };
    let words = "timeout of the corresponding sequence has been expired";
    assert!(failure(&model, short).contains(words));
    assert_eq!(answer(&model, of(1, END, 1.0))[0], 2.0);
}

#[test]
fn a_decoupled_model_and_a_caller_have_sequences() {
    let repository = Repository::new();
    let code = "
class TritonPythonModel:
    def initialize(self, args):
        self.seen = {}

    def execute(self, requests):
        for request in requests:
            if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
                self.seen[request.correlation_id()] = 0
            self.seen[request.correlation_id()] += 1
            sender = request.get_response_sender()
            for step in range(2):
                out = np.array([self.seen[request.correlation_id()], step], np.float32)
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('OUT', out)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
";
    let config = format!(
        "model_transaction_policy {{ decoupled: true }} sequence_batching {{ direct {{ }} {LONG} }} {FLOATS}"
    );
    let model = repository.model("decoupled", &config, code);
    for (count, flags) in [(1.0, START), (2.0, END)] {
        let all = events(&model, of(9, flags, 0.0));
        let responses = all.into_iter().filter_map(|event| event.response);
        let answers: Vec<_> =
            responses.map(|response| as_floats(&response.unwrap().outputs[0])).collect();
        assert_eq!(answers, [[count, 0.0], [count, 1.0]]);
    }
    let caller = "
class TritonPythonModel:
    def execute(self, requests):
        out = []
        for flags in (pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, 0, pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END):
            request = pb_utils.InferenceRequest(
                model_name='decoupled', correlation_id=5, flags=flags, requested_output_names=['OUT'],
                inputs=[pb_utils.Tensor('IN', np.zeros((1, 1), np.float32))])
            answers = [response for response in request.exec(decoupled=True) if response.output_tensors()]
            out.extend(pb_utils.get_output_tensor_by_name(answer, 'OUT').as_numpy()[0] for answer in answers)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array(out, np.float32))]) for _ in requests]
";
    let model = repository.model("caller", FLOATS, caller);
    assert_eq!(answer(&model, floats(&[0.0])), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
}

/// Answers with what its executions were: the number of requests, the sum of IN, whether there are texts.
const WITNESS: &str = "
class TritonPythonModel:
    def initialize(self, args):
        self.seen = []

    def execute(self, requests):
        for request in requests:
            tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
            assert tensors['IN'].shape == (1, 2), tensors
            assert 'START' not in tensors or tensors['START'].shape == (1, 1), tensors
            text = tensors['TEXT'].ravel() if 'TEXT' in tensors else ()
            assert all(type(one) is bytes for one in text)
        self.seen += [len(requests), tensors['IN'].sum(), sum(len(one) for one in text), len(tensors)]
        if tensors['IN'].sum() == 13:
            raise ValueError('it is too cold')
        out = np.array(self.seen, np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', out.copy())]) for _ in requests]
";

const WARM: &str = r#"
input { name: "TEXT" data_type: TYPE_STRING dims: [ -1 ] optional: true }
model_warmup [ {
  name: "zeros" batch_size: 3 count: 2
  inputs { key: "IN" value: { data_type: TYPE_FP32 dims: 2 zero_data: true } }
  inputs { key: "START" value: { data_type: TYPE_INT32 dims: 1 zero_data: true } }
}, {
  name: "file" batch_size: 1
  inputs { key: "IN" value: { data_type: TYPE_FP32 dims: 2 input_data_file: "floats" } }
  inputs { key: "TEXT" value: { data_type: TYPE_STRING dims: 2 input_data_file: "texts" } }
}, {
  name: "none" batch_size: 0
  inputs { key: "IN" value: { data_type: TYPE_FP32 dims: 2 zero_data: true } }
} ]
"#;

fn write_warmup(repository: &Repository, model: &str, values: [f32; 2]) {
    let folder = repository.path().join(model).join("warmup");
    fs::create_dir_all(&folder).unwrap();
    let floats = values.map(f32::to_le_bytes).concat();
    // Bytes beyond the tensor's size are not read.
    fs::write(folder.join("floats"), [&floats[..], b"rest"].concat()).unwrap();
    let texts = hydrozoa_models::encode_bytes([&b"one"[..], b"three"]);
    fs::write(folder.join("texts"), texts).unwrap();
}

#[test]
fn instances_are_warm_before_they_serve() {
    let repository = Repository::new();
    let start = r#"control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }"#;
    let config = format!("{FLOATS} {WARM} sequence_batching {{ {start} }}");
    write_warmup(&repository, "warm", [1.5, 2.0]);
    let model = repository.model("warm", &config, WITNESS);
    // Nothing of it is in the statistics.
    assert_eq!(model.statistics(), hydrozoa_models::Statistics::default());
    let request =
        Request { correlation_id: CorrelationId::Number(1), flags: START, ..floats(&[1.0, 0.0]) };
    let expected =
        [[3.0, 0.0, 0.0, 2.0], [3.0, 0.0, 0.0, 2.0], [1.0, 3.5, 8.0, 2.0], [1.0, 1.0, 0.0, 2.0]];
    assert_eq!(answer(&model, request), expected.concat());

    // Random numbers, and no empty place of a batch.
    let random = r#"model_warmup { name: "random" batch_size: 1
        inputs { key: "IN" value: { data_type: TYPE_FP32 dims: [ 2 ] random_data: true } }
        inputs { key: "TEXT" value: { data_type: TYPE_STRING dims: [ 5 ] random_data: true } } }
        input { name: "TEXT" data_type: TYPE_STRING dims: [ -1 ] optional: true }"#;
    let model = repository.model("random", &format!("{FLOATS} {random}"), WITNESS);
    let seen = answer(&model, floats(&[1.0, 0.0]));
    assert_eq!((seen.len(), seen[0], seen[2], seen[3]), (8, 1.0, 0.0, 2.0));
    assert_ne!(seen[1], 0.0);
}

#[test]
fn a_model_that_cannot_be_warmed_up_does_not_serve() {
    let repository = Repository::new();
    let config = format!("{FLOATS} {WARM}")
        .replace("START", "TEXT")
        .replace("data_type: TYPE_INT32 dims: 1", "data_type: TYPE_STRING dims: 1");
    write_warmup(&repository, "m", [1.0, 2.0]);
    repository.model("m", &config, WITNESS);
    for (name, values, change, words) in [
        ("file", [6.0, 7.0], ("", ""), "ValueError: it is too cold"),
        ("file", [1.0, 2.0], ("\"floats\"", "\"absent\""), "input 'IN': reading"),
        (
            "zeros",
            [1.0, 2.0],
            ("TYPE_FP32 dims: 2 zero", "TYPE_FP64 dims: 2 zero"),
            "expects 'FP32'",
        ),
        (
            "zeros",
            [1.0, 2.0],
            ("TYPE_FP32 dims: 2 zero", "TYPE_FP32 dims: [ 9223372036854775807, 2 ] zero"),
            "input 'IN': it has more bytes than can be counted",
        ),
        (
            "file",
            [1.0, 2.0],
            ("dims: 2 input_data_file: \"floats\"", "dims: 4 input_data_file: \"floats\""),
            "input 'IN': it needs 16 bytes, and ",
        ),
    ] {
        write_warmup(&repository, "m", values);
        repository.write("m", 2, &config.replacen(change.0, change.1, 1), WITNESS);
        let error = repository.server.load("m").unwrap_err();
        assert!(
            matches!(&error, LoadError::Warmup { sample, version: 2, .. } if sample == name),
            "{error}"
        );
        let message = error.to_string();
        let front = format!("model `m`, version 2: failed to run warmup sample '{name}': ");
        assert!(message.starts_with(&front) && message.contains(words), "{message}");
        // The serving version goes on.
        assert_eq!(repository.server.model("m", None).unwrap().version(), 1);
    }
}

#[test]
fn a_decoupled_model_is_warmed_up_until_its_last_response() {
    let repository = Repository::new();
    let code = "
import asyncio

class TritonPythonModel:
    async def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.zeros(1, np.float32))]))
            await asyncio.sleep(0.05)
            error = pb_utils.TritonError('not any more') if request.inputs()[0].as_numpy().any() else None
            response = pb_utils.InferenceResponse([], error)
            sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
";
    let warm = r#"model_transaction_policy { decoupled: true } model_warmup { name: "w" batch_size: 2
        inputs { key: "IN" value: { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } }"#;
    let config = format!("{FLOATS} {warm}");
    repository.model("good", &config, code);
    repository.write("bad", 1, &config.replace("zero_data", "random_data"), code);
    let error = repository.server.load("bad").unwrap_err().to_string();
    // Both requests fail with the same words, which are there once.
    assert!(error.ends_with("failed to run warmup sample 'w': not any more"), "{error}");
}
