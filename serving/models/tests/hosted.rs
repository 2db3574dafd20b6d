//! Instances for a program that has its own scheduler, and that models ask for what they need.

mod common;

use bytes::{Bytes, BytesMut};
use common::{float_bytes, floats_of, venv};
use hydrozoa_models::host::{Call, Cancel, Host, MetricFamily, Overrides};
use hydrozoa_models::hosted::{Instance, Lent, ModelFile, Told, Work};
use hydrozoa_models::{Code, DataType, Event, Failure, Input, Output, Request, Response};
use parking_lot::Mutex;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// Answers calls of the model `double`, and remembers what it was asked.
#[derive(Default)]
struct Program {
    asked: Mutex<Vec<String>>,
}

struct Nothing;

impl Cancel for Nothing {
    fn cancel(&self) {}
}

impl Host for Program {
    fn infer(&self, mut call: Call) -> Result<Box<dyn Cancel>, Failure> {
        if call.model != "double" {
            return Err(Failure::new(Code::NotFound, "there is `double` only"));
        }
        let values = floats(&call.request.inputs[0].data);
        let data = float_bytes(&values.map(|value| value * 2.0)).into();
        let output =
            Output { name: "Y".to_owned(), data_type: DataType::Fp32, shape: vec![2], data };
        let response = Response { outputs: vec![output], parameters: vec![] };
        (call.respond)(Event { response: Some(Ok(response)), is_final: true });
        Ok(Box::new(Nothing))
    }

    fn load_model(&self, name: &str, overrides: Overrides) -> Result<(), String> {
        self.asked.lock().push(format!("load {name} {:?} {:?}", overrides.config, overrides.files));
        Ok(())
    }

    fn unload_model(&self, name: &str, dependents: bool) -> Result<(), String> {
        self.asked.lock().push(format!("unload {name} {dependents}"));
        Err("it is in use".to_owned())
    }

    fn is_model_ready(&self, name: &str, version: &str) -> bool {
        (name, version) == ("double", "3")
    }

    fn metric_family(&self, _: &str, _: &str, _: &str) -> Result<Arc<dyn MetricFamily>, String> {
        Err("no metrics here".to_owned())
    }
}

fn floats(data: &[u8]) -> [f32; 2] {
    floats_of(data).try_into().unwrap()
}

fn start(model: &str, program: &Arc<Program>) -> (tempfile::TempDir, Instance) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("1")).unwrap();
    fs::write(folder.path().join("1/model.py"), model).unwrap();
    let file = ModelFile::new(folder.path(), 1, "model.py");
    let builder = hydrozoa::Pool::builder().venv(venv());
    (folder, Instance::start(builder, "m", file, program.clone()).unwrap())
}

fn told(config: &str) -> Told {
    let (config, name) = (config.to_owned(), "m_0".to_owned());
    Told { config, name, kind: "CPU", device: 0, is_decoupled: false }
}

fn work(request: Request, lent: Vec<Lent>, gone: &Arc<AtomicBool>) -> (Work, Receiver<Event>) {
    let (sender, events) = channel();
    let gone = gone.clone();
    let respond = Box::new(move |event| drop(sender.send(event)));
    let is_cancelled = Box::new(move || gone.load(Ordering::Relaxed));
    (Work { request, lent, respond, is_cancelled }, events)
}

fn owned(values: [f32; 2]) -> Request {
    let (name, data_type) = ("X".to_owned(), DataType::Fp32);
    let input =
        Input { name, data_type, shape: vec![2], data: BytesMut::from(&*float_bytes(&values)) };
    Request { inputs: vec![input], ..Request::default() }
}

fn outcome(events: &Receiver<Event>) -> Result<[f32; 2], Failure> {
    let event = events.recv().unwrap();
    assert!(event.is_final);
    event.response.unwrap().map(|response| floats(&response.outputs[0].data))
}

const DOUBLES: &str = "
import json
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(4)
        return config

    def initialize(self, args):
        self.model = json.loads(args['model_config'])['of']

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        if request.is_cancelled():
            return pb_utils.InferenceResponse(error=pb_utils.TritonError('gone', pb_utils.TritonError.CANCELLED))
        x = pb_utils.get_input_tensor_by_name(request, 'X')
        if x.as_numpy().flags.writeable:
            x.as_numpy()[0] = 7
        call = pb_utils.InferenceRequest(model_name=self.model, requested_output_names=['Y'], inputs=[x])
        response = call.exec()
        if response.has_error():
            raise ValueError(response.error().message())
        return response
";

#[test]
fn a_batch_of_another_scheduler_is_executed() {
    let (_folder, instance) = start(DOUBLES, &Arc::default());
    let config = r#"{"name": "m", "max_batch_size": 0, "of": "double"}"#;
    let completed = instance.complete(config).unwrap();
    assert!(completed.contains("\"max_batch_size\":4"), "{completed}");
    instance.initialize(told(&completed)).unwrap();

    let gone = Arc::new(AtomicBool::new(false));
    let (own, of_own) = work(owned([1.0, 2.0]), vec![], &gone);
    let memory = Bytes::from(float_bytes(&[3.0, 4.0]));
    let (name, data_type) = ("X".to_owned(), DataType::Fp32);
    let lent = Lent { name, data_type, shape: vec![2], data: memory.clone() };
    let (other, of_other) = work(Request::default(), vec![lent], &gone);
    instance.execute(vec![own, other]).unwrap();
    // The model writes what it owns, and not what it is lent.
    assert_eq!((outcome(&of_own), outcome(&of_other)), (Ok([14.0, 4.0]), Ok([6.0, 8.0])));
    assert_eq!(floats(&memory), [3.0, 4.0]);

    gone.store(true, Ordering::Relaxed);
    let (cancelled, events) = work(owned([1.0, 2.0]), vec![], &gone);
    instance.execute(vec![cancelled]).unwrap();
    assert_eq!(outcome(&events).unwrap_err().code, Code::Cancelled);
    // The closure that asks for the client was dropped with the last response.
    drop(instance);
    assert_eq!(Arc::strong_count(&gone), 1);
}

#[test]
fn a_failed_call_and_an_early_request_get_errors() {
    let (_folder, instance) = start(DOUBLES, &Arc::default());
    let gone = Arc::default();
    let (early, events) = work(owned([1.0, 2.0]), vec![], &gone);
    let error = instance.execute(vec![early]).unwrap_err().to_string();
    assert!(error.contains("not initialized") && outcome(&events).is_err(), "{error}");

    instance.initialize(told(r#"{"of": "triple"}"#)).unwrap();
    let (failing, events) = work(owned([1.0, 2.0]), vec![], &gone);
    instance.execute(vec![failing]).unwrap();
    let words = outcome(&events).unwrap_err().message;
    assert!(words.contains("Model triple - Error when running inference: there is `double` only"));
    instance.finish();
    let (late, events) = work(owned([1.0, 2.0]), vec![], &gone);
    assert!(instance.execute(vec![late]).unwrap_err().to_string().contains("has ended"));
    assert!(events.recv().is_err(), "a request that was not taken is the program's");
}

#[test]
fn a_model_asks_the_program_for_loads_and_metrics() {
    let model = "
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        pb_utils.load_model('other', config='{}', files={'file:1/model.py': b'x'})
        for problem, action in (
            ('it is in use', lambda: pb_utils.unload_model('other', unload_dependents=True)),
            ('no metrics here', lambda: pb_utils.MetricFamily('m', '', pb_utils.MetricFamily.GAUGE)),
        ):
            try:
                action()
            except pb_utils.TritonModelException as error:
                assert problem in str(error), error
            else:
                raise AssertionError(problem)
        assert pb_utils.is_model_ready('double', '3') and not pb_utils.is_model_ready('double')
";
    let program = Arc::new(Program::default());
    let (_folder, instance) = start(model, &program);
    instance.initialize(told("{}")).unwrap();
    let asked = program.asked.lock();
    let loaded = "load other Some(\"{}\") [(\"file:1/model.py\", b\"x\")]";
    assert_eq!(*asked, [loaded, "unload other true"]);
}
