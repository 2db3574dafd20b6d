//! Python models: what they get, and what becomes of what they return.

mod common;

use bytes::BytesMut;
use common::{
    FLOATS, Repository, answer, as_floats, config_of, decoupled, events, failure, floats, input,
    numpy_types, response,
};
use hydrozoa_models::{
    Code, CorrelationId, DataType, Parameter, Request, decode_bytes, encode_bytes,
};

/// Doubles its input in place.
const DOUBLE: &str = "
class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            array = pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy()
            array *= 2
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array)]))
        return responses
";

#[test]
fn a_model_gets_memory_that_it_can_write() {
    let repository = Repository::new();
    let model = repository.model("double", FLOATS, DOUBLE);
    for count in 0..20 {
        let values: Vec<f32> = (0..count).map(|value| value as f32).collect();
        let doubled: Vec<f32> = values.iter().map(|value| value * 2.0).collect();
        assert_eq!(answer(&model, floats(&values)), doubled);
    }
    let statistics = model.statistics();
    assert_eq!((statistics.success, statistics.inferences, statistics.failed), (20, 20, 0));
    assert_eq!(model.waiting(), 0);
}

#[test]
fn what_a_model_keeps_is_sent_as_it_was() {
    let repository = Repository::new();
    // One array for all responses, a view of another, one that nobody else has, a tensor that is sent again.
    let code = "
class TritonPythonModel:
    def initialize(self, args):
        self.kept = np.zeros(4, np.float32)
        self.wide = np.zeros((4, 2), np.float32)
        self.tensor = pb_utils.Tensor('AGAIN', np.zeros(4, np.float32))

    def execute(self, requests):
        self.kept += 1
        self.wide += 1
        array = self.tensor.as_numpy()
        array += 1
        del array
        tensors = [
            pb_utils.Tensor('KEPT', self.kept),
            pb_utils.Tensor('VIEW', self.wide[:2].ravel()),
            pb_utils.Tensor('ROWS', self.wide[:, 0]),
            pb_utils.Tensor('OWN', np.full(4, self.kept[0])),
            self.tensor,
        ]
        return [pb_utils.InferenceResponse(tensors) for _ in requests]
";
    let outputs: String = ["KEPT", "VIEW", "ROWS", "OWN", "AGAIN"]
        .map(|name| format!("output {{ name: \"{name}\" data_type: TYPE_FP32 dims: 4 }}\n"))
        .concat();
    let model = repository.model(
        "keeps",
        &format!("{outputs} input {{ name: \"IN\" data_type: TYPE_FP32 dims: [ 1, 1 ] }}"),
        code,
    );
    let responses: Vec<_> = (0..5).map(|_| response(&model, floats(&[0.0])).unwrap()).collect();
    for (place, response) in responses.iter().enumerate() {
        let names: Vec<_> = response.outputs.iter().map(|output| output.name.as_str()).collect();
        assert_eq!(names, ["KEPT", "VIEW", "ROWS", "OWN", "AGAIN"]);
        for output in &response.outputs {
            assert_eq!(
                as_floats(output),
                [(place + 1) as f32; 4],
                "{} of response {place}",
                output.name
            );
        }
    }
}

#[test]
fn all_types_of_elements_come_and_go() {
    let repository = Repository::new();
    let code = "
class TritonPythonModel:
    def execute(self, requests):
        (request,) = requests
        (tensor,) = request.inputs()
        made = pb_utils.Tensor(tensor.name(), tensor.as_numpy())
        assert tensor.shape() == [2, 3] and tensor.is_cpu()
        return [pb_utils.InferenceResponse([made])]
";
    let model = repository.model("types", &config_of(numpy_types(), "[ 2, -1 ]"), code);
    for data_type in numpy_types() {
        let data = match data_type.size() {
            Some(size) => (0..6 * size).map(|byte| (byte % 2) as u8).collect(),
            None => encode_bytes([&b"a"[..], b"", b"\xff\0", "\u{20ac}".as_bytes(), b"x", b"yz"]),
        };
        // Memory that starts anywhere, as that of a network does.
        let mut wide = BytesMut::from(&b"x"[..]);
        wide.extend_from_slice(&data);
        let request = input(data_type.name(), data_type, &[2, 3], wide.split_off(1));
        let response = response(&model, request).unwrap();
        assert_eq!(response.outputs[0].data, data, "{data_type}");
        assert_eq!(
            (response.outputs[0].data_type, &response.outputs[0].shape[..]),
            (data_type, &[2, 3][..])
        );
    }
}

#[test]
fn texts_are_objects_of_numpy() {
    let repository = Repository::new();
    let code = "
class TritonPythonModel:
    def execute(self, requests):
        array = pb_utils.get_input_tensor_by_name(requests[0], 'IN').as_numpy()
        assert array.dtype == np.object_ and all(type(text) is bytes for text in array.ravel())
        texts = [text.decode().upper() for text in array.ravel()]
        return [pb_utils.InferenceResponse([
            pb_utils.Tensor('TEXTS', np.array(texts, dtype=np.object_)),
            pb_utils.Tensor('FIXED', np.array(texts).astype(np.bytes_)),
        ])]
";
    let config = r#"input { name: "IN" data_type: TYPE_STRING dims: [ -1 ] }"#;
    let model = repository.model("texts", config, code);
    let data = encode_bytes([&b"one"[..], "zw\u{f6}lf".as_bytes(), b""]);
    let response = response(&model, input("IN", DataType::Bytes, &[3], data));
    // numpy has no bytes for a text beyond ASCII.
    assert!(response.unwrap_err().message.contains("UnicodeEncodeError"));
    let data = encode_bytes([&b"one"[..], b"two"]);
    let response = common::response(&model, input("IN", DataType::Bytes, &[2], data)).unwrap();
    for output in &response.outputs {
        assert_eq!(decode_bytes(&output.data).unwrap(), [b"ONE", b"TWO"], "{}", output.name);
    }
}

#[test]
fn a_request_says_who_it_is() {
    let repository = Repository::new();
    let code = "
import json

class TritonPythonModel:
    def initialize(self, args):
        self.args = args

    def execute(self, requests):
        (request,) = requests
        assert request.request_id() == 'me' and request.correlation_id() == 'sequence'
        assert request.flags() == pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
        assert request.timeout() == 5 and request.requested_output_names() == ['OUT'], request.requested_output_names()
        assert json.loads(request.parameters()) == {'a': 1, 'b': 'text', 'c': True, 'd': 0.5}
        assert not request.is_cancelled() and request.trace().get_context() is None
        config = json.loads(self.args.pop('model_config'))
        assert pb_utils.get_input_config_by_name(config, 'IN')['data_type'] == 'TYPE_FP32'
        assert pb_utils.get_output_config_by_name(config, 'NO') is None
        assert pb_utils.get_model_dir() == self.args['model_repository'] + '/1'
        del self.args['model_repository']
        out = request.inputs()[0].as_numpy()
        tensors = [pb_utils.Tensor('OUT', out), pb_utils.Tensor('OTHER', out)]
        return [pb_utils.InferenceResponse(tensors, parameters=self.args | {'count': 3, 'is': False})]
";
    let model = repository.model("who", FLOATS, code);
    let request = Request {
        id: "me".to_owned(),
        correlation_id: CorrelationId::Text("sequence".to_owned()),
        flags: 1,
        timeout: 5,
        parameters: vec![
            ("a".to_owned(), Parameter::Int(1)),
            ("b".to_owned(), Parameter::Text("text".to_owned())),
            ("c".to_owned(), Parameter::Bool(true)),
            ("d".to_owned(), Parameter::Double(0.5)),
        ],
        outputs: vec!["OUT".to_owned()],
        ..floats(&[1.0])
    };
    let response = response(&model, request).unwrap();
    assert_eq!(response.outputs.len(), 1, "only what was asked for");
    let text = |value: &str| Parameter::Text(value.to_owned());
    let expected = [
        ("model_instance_kind", text("CPU")),
        ("model_instance_name", text("who_0_0")),
        ("model_instance_device_id", text("0")),
        ("model_version", text("1")),
        ("model_name", text("who")),
        ("count", Parameter::Int(3)),
        ("is", Parameter::Bool(false)),
    ];
    assert_eq!(response.parameters, expected.map(|(name, value)| (name.to_owned(), value)));
}

#[test]
fn errors_reach_the_client_in_tritons_words() {
    let repository = Repository::new();
    let code = "
class TritonPythonModel:
    def execute(self, requests):
        (request,) = requests
        case = int(request.inputs()[0].as_numpy()[0][0])
        tensor = pb_utils.Tensor('OUT', np.zeros(1, np.float32))
        if case == 0:
            raise ValueError('the model says so')
        if case == 1:
            return [pb_utils.InferenceResponse([tensor], pb_utils.TritonError('not now', pb_utils.TritonError.UNAVAILABLE))]
        if case == 2:
            return ['a text']
        if case == 3:
            return []
        if case == 4:
            return (1,)
        if case == 5:
            return [None]
        if case == 6:
            return [pb_utils.InferenceResponse([tensor], parameters={'a': [1]})]
        if case == 7:
            return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.zeros(1, np.complex64))])]
        if case == 8:
            return [pb_utils.InferenceResponse([pb_utils.Tensor('', np.zeros(1))])]
        if case == 9:
            return [pb_utils.InferenceResponse([None])]
        if case == 10:
            raise SystemExit(3)
        return [pb_utils.InferenceResponse([tensor])]
";
    let model = repository.model("errors", FLOATS, code);
    let of = |case: i32| response(&model, floats(&[case as f32])).unwrap_err();
    assert_eq!(
        of(0).message,
        "Failed to process the request(s) for model 'errors_0_0', message: ValueError: the model says so"
    );
    assert_eq!((of(1).message.as_str(), of(1).code), ("not now", Code::Unavailable));
    for (case, words) in [
        (
            2,
            "Expected an 'InferenceResponse' object in the execute function return list, found type '<class 'str'>'.",
        ),
        (3, "InferenceRequest(s) size is:1, and InferenceResponse(s) size is:0"),
        (4, "Expected a list in the execute return, found type '<class 'tuple'>'."),
        (5, "without a final response"),
        (6, "Expect parameters values to have type bool/int/str, found type <class 'list'>"),
        (7, "NumPy dtype is not supported."),
        (8, "Tensor name cannot be an empty string."),
        (9, "Output tensor for inference response should not be empty."),
        (10, "SystemExit"),
    ] {
        let failure = of(case);
        assert!(failure.message.contains(words), "{case}: {failure}");
        assert_eq!(failure.code, Code::Internal);
    }
    // The model goes on, and a request that the model must not see does not reach it.
    assert_eq!(answer(&model, floats(&[99.0])), [0.0]);
    assert!(failure(&model, Request::default()).contains("missing required input(s) ['IN']"));
}

#[test]
fn a_model_completes_its_configuration() {
    let repository = Repository::new();
    let code = "
import json

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({'name': 'IN', 'data_type': 'TYPE_FP32', 'dims': [2]})
        config.add_output({'name': 'OUT', 'data_type': 'TYPE_FP32', 'dims': [2]})
        config.set_max_batch_size(4)
        config.set_dynamic_batching()
        config.set_model_transaction_policy({'decoupled': False})
        return config

    def initialize(self, args):
        self.config = json.loads(args['model_config'])
        assert self.config['max_batch_size'] == 4 and 'dynamic_batching' in self.config

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', r.inputs()[0].as_numpy())]) for r in requests]
";
    let model = repository.model("completes", "input { name: \"IN\" }", code);
    assert_eq!(
        (model.config().max_batch_size(), model.config().inputs()[0].dims.as_slice()),
        (4, &[2][..])
    );
    assert_eq!(answer(&model, floats(&[1.0, 2.0])), [1.0, 2.0]);
    let wrong = repository.path().join("wrong");
    repository.write("wrong", 1, "input { name: \"IN\" data_type: TYPE_INT8 dims: 2 }", code);
    let error = repository.server.load("wrong").unwrap_err().to_string();
    assert!(
        error.contains(
            "configuration expects datatype TYPE_INT8 for input 'IN', model provides TYPE_FP32"
        ),
        "{error}"
    );
    assert!(wrong.is_dir() && repository.server.model("wrong", None).is_err());
}

#[test]
fn a_coroutine_is_awaited() {
    let repository = Repository::new();
    let code = "
import asyncio

class TritonPythonModel:
    async def execute(self, requests):
        await asyncio.sleep(0.01)
        arrays = [request.inputs()[0].as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array + 1)]) for array in arrays]
";
    let model = repository.model("coroutine", FLOATS, code);
    assert_eq!(answer(&model, floats(&[1.0])), [2.0]);
    assert_eq!(answer(&model, floats(&[2.0])), [3.0]);
}

#[test]
fn a_decoupled_model_sends_as_it_likes() {
    let repository = Repository::new();
    // From a thread, after execute has returned; the count is the input's.
    let code = "
import threading

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            count = int(request.inputs()[0].as_numpy()[0][0])
            sender = request.get_response_sender()
            threading.Thread(target=self.send, args=(sender, count)).start()

    def send(self, sender, count):
        for number in range(count):
            tensor = pb_utils.Tensor('OUT', np.full(3, number, np.float32))
            sender.send(pb_utils.InferenceResponse([tensor]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        try:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        except pb_utils.TritonModelException as error:
            assert 'Response sender has been closed.' in str(error)
        else:
            raise AssertionError
";
    let model = repository.model("many", &decoupled(), code);
    for count in [0, 1, 7] {
        let all = events(&model, floats(&[count as f32]));
        let (last, others) = all.split_last().unwrap();
        assert!(last.response.is_none() && others.len() == count);
        for (number, event) in others.iter().enumerate() {
            let response = event.response.as_ref().unwrap().as_ref().unwrap();
            assert_eq!(as_floats(&response.outputs[0]), [number as f32; 3]);
        }
    }
}

#[test]
fn a_decoupled_coroutine_runs_while_others_are_taken() {
    let repository = Repository::new();
    let code = "
import asyncio

class TritonPythonModel:
    waiting = None

    async def execute(self, requests):
        (request,) = requests
        if request.inputs()[0].as_numpy()[0][0] < 0:
            raise ValueError('negative')
        if self.waiting is None:
            self.waiting = asyncio.get_running_loop().create_future()
            await self.waiting
        else:
            self.waiting.set_result(None)
        tensor = pb_utils.Tensor('OUT', np.zeros(1, np.float32))
        request.get_response_sender().send(pb_utils.InferenceResponse([tensor]), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
";
    let model = repository.model("awaits", &decoupled(), code);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| events(&model, floats(&[0.0])));
        while model.statistics().executions == 0 {
            std::thread::yield_now();
        }
        assert_eq!(events(&model, floats(&[0.0])).len(), 1);
        assert_eq!(first.join().unwrap().len(), 1);
    });
    assert!(failure(&model, floats(&[-1.0])).contains("ValueError: negative"));
}

#[test]
fn arguments_of_a_wrong_kind_are_refused() {
    let repository = Repository::new();
    let code = "
array = np.zeros(1, np.float32)
tensor = pb_utils.Tensor('A', array)

def request(**more):
    return pb_utils.InferenceRequest(**({'model_name': 'm', 'inputs': [tensor], 'requested_output_names': ['B']} | more))

def refuses(error, call, *given, **named):
    try:
        call(*given, **named)
    except error:
        return
    raise AssertionError(f'{call.__name__} takes {given} {named}')

class TritonPythonModel:
    def execute(self, requests):
        for named in ({'inputs': None}, {'model_name': None}, {'requested_output_names': None}, {'request_id': None},
                      {'requested_output_names': [None]}, {'correlation_id': None}, {'flags': None},
                      {'model_version': None}, {'timeout': '1'}):
            refuses(TypeError, request, **named)
        refuses(pb_utils.TritonModelException, request, inputs=[None])
        refuses(pb_utils.TritonModelException, request, requested_output_names=[''])
        assert request(correlation_id='x', timeout=np.int64(3), flags=np.uint8(1)).timeout() == 3
        for given in ((None, array), ('A', None), ('', None), ('A', [1.0])):
            refuses(TypeError, pb_utils.Tensor, *given)
        for name in ('A', ''):
            refuses(pb_utils.TritonModelException, pb_utils.Tensor.from_dlpack, name, None)
        refuses(TypeError, pb_utils.InferenceResponse, output_tensors=None)
        refuses(TypeError, pb_utils.TritonError, None)
        refuses(TypeError, pb_utils.Logger.log, 'text', 1)
        refuses(TypeError, pb_utils.Logger.log_warn, None)
        pb_utils.Logger.log('text', pb_utils.Logger.VERBOSE)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array)]) for _ in requests]
";
    let model = repository.model("kinds", FLOATS, code);
    assert_eq!(answer(&model, floats(&[0.0])), [0.0]);
}

#[test]
fn a_forked_child_of_a_model_is_told_that_it_has_no_server() {
    let repository = Repository::new();
    repository.model("double", FLOATS, DOUBLE);
    let code = "
import multiprocessing

def call(requests):
    tensor = pb_utils.Tensor('IN', np.ones((1, 1), np.float32))
    error = pb_utils.InferenceRequest(model_name='double', inputs=[tensor], requested_output_names=['OUT']).exec().error()
    try:
        requests[0].get_response_sender().send(pb_utils.InferenceResponse([]))
    except pb_utils.TritonModelException as refused:
        return 'forked child' in error.message() and 'forked child' in str(refused) and not pb_utils.is_model_ready('double')

class TritonPythonModel:
    def execute(self, requests):
        context = multiprocessing.get_context('fork')
        receiving, sending = context.Pipe(False)
        child = context.Process(target=lambda: sending.send(call(requests)))
        child.start()
        told = receiving.poll(30) and receiving.recv()
        child.join(30)
        tensor = pb_utils.Tensor('OUT', np.array([told, child.exitcode == 0], np.float32))
        return [pb_utils.InferenceResponse([tensor])]
";
    let model = repository.model("forks", FLOATS, code);
    assert_eq!(answer(&model, floats(&[0.0])), [1.0, 1.0]);
}

#[test]
fn a_model_says_itself_whether_it_is_ready() {
    let repository = Repository::new();
    let code = "
import asyncio
import threading

class TritonPythonModel:
    def initialize(self, args):
        self.step = 0.0
        self.calls = 0
        self.goes_on = threading.Event()

    def is_ready(self):
        self.calls += 1
        if self.step == 2:
            raise RuntimeError('a part of the test')
        if self.step == 4:
            return self.later()
        if self.step == 5:
            self.goes_on.wait()
        return {1: False, 3: 'yes'}.get(self.step, True)

    async def later(self):
        await asyncio.sleep(0.01)
        return False

    def execute(self, requests):
        (request,) = requests
        self.step = float(pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy()[0, 0])
        if self.step == 6:
            self.goes_on.set()
        calls = pb_utils.Tensor('OUT', pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy() * 0 + self.calls)
        return [pb_utils.InferenceResponse([calls])]
";
    let model = repository.model("says", FLOATS, code);
    for (step, is_ready) in [(0.0, true), (1.0, false), (2.0, false), (3.0, false), (4.0, false)] {
        answer(&model, floats(&[step]));
        let words = model.ask();
        assert_eq!(words.is_none(), is_ready, "{step}: {words:?}");
        let no = "instance 'says_0_0' of model 'says': its is_ready says no";
        assert!(words.is_none_or(|words| words == no));
        assert!(model.is_ready(), "what the server sees itself is another matter");
    }
    // Requests are executed while it has not answered, and nobody asks twice.
    assert_eq!(answer(&model, floats(&[5.0])), [5.0]);
    let asked = [(); 2].map(|()| {
        let model = model.clone();
        std::thread::spawn(move || model.ask())
    });
    common::until("the question", || answer(&model, floats(&[5.0])) == [6.0]);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(answer(&model, floats(&[6.0])), [6.0]);
    assert!(asked.map(|asked| asked.join().unwrap()).iter().all(Option::is_none));
    // A model without words is not asked.
    assert_eq!(repository.model("double", FLOATS, DOUBLE).ask(), None);
}

#[test]
fn elements_that_numpy_lacks_come_and_go_in_capsules() {
    let repository = Repository::new();
    let code = "
import torch

class TritonPythonModel:
    def execute(self, requests):
        (request,) = requests
        capsule = request.inputs()[0].to_dlpack()
        doubled = torch.utils.dlpack.from_dlpack(capsule) * 2
        made = pb_utils.Tensor.from_dlpack('OUT', torch.utils.dlpack.to_dlpack(doubled))
        return [pb_utils.InferenceResponse([made])]
";
    let config = FLOATS.replace("TYPE_FP32", "TYPE_BF16");
    let model = repository.model("bf16", &config, code);
    // 1.0 and -2.5 as the upper halves of 32-bit floats.
    let bytes = |values: [f32; 2]| -> BytesMut {
        values.iter().flat_map(|value| value.to_le_bytes()[2..].to_vec()).collect()
    };
    let request = input("IN", DataType::Bf16, &[1, 2], bytes([1.0, -2.5]));
    let response = response(&model, request).unwrap();
    assert_eq!(response.outputs[0].data_type, DataType::Bf16);
    assert_eq!(response.outputs[0].data[..], bytes([2.0, -5.0])[..]);
}
