//! Servers: versions, loads and reloads, batches, instances, models that call models.

mod common;

use common::{FLOATS, Repository, answer, decoupled, failure, floats, response, source};
use hydrozoa_models::host::Overrides;
use hydrozoa_models::{Code, Event, LoadError, ModelState};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Answers with a constant of the version.
fn constant(value: f32) -> String {
    format!(
        "
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array([{value}], np.float32))]) for _ in requests]
"
    )
}

fn of_version(repository: &Repository, version: Option<i64>) -> f32 {
    let model = repository.server.model("m", version).unwrap();
    answer(&model, floats(&[0.0]))[0]
}

#[test]
fn versions_serve_side_by_side() {
    let repository = Repository::new();
    let config = format!("{FLOATS} version_policy {{ all {{}} }}");
    for version in [1, 2, 10] {
        repository.write("m", version, &config, &constant(version as f32));
    }
    repository.server.load("m").unwrap();
    assert_eq!(
        [Some(1), Some(2), Some(10), None].map(|version| of_version(&repository, version)),
        [1.0, 2.0, 10.0, 10.0]
    );
    let server = &repository.server;
    assert!(
        server.is_ready("m", "")
            && server.is_ready("m", "2")
            && !server.is_ready("m", "3")
            && !server.is_ready("m", "x")
    );
    assert_eq!(server.model("m", Some(3)).err().unwrap().code, Code::NotFound);
    let index: Vec<_> = server.index().into_iter().map(|line| (line.version, line.state)).collect();
    assert_eq!(index, [1, 2, 10].map(|version| (Some(version), ModelState::Ready)));
}

#[test]
fn a_failed_reload_keeps_what_serves() {
    let repository = Repository::new();
    repository.model("m", FLOATS, &constant(1.0));
    repository.write("m", 2, FLOATS, "raise ImportError('not today')");
    let error = repository.server.load("m").unwrap_err();
    assert!(error.to_string().contains("model `m`, version 2: ImportError: not today"), "{error}");
    assert_eq!(of_version(&repository, None), 1.0);
    assert!(
        matches!(&repository.server.index()[0].state, ModelState::Failed(why) if why.contains("not today"))
    );
    // Triton tells a version that does not serve from one that nobody knows.
    for (version, code) in [(2, Code::Unavailable), (3, Code::NotFound)] {
        let failure = repository.server.model("m", Some(version)).err().unwrap();
        assert_eq!(failure.code, code, "{failure}");
    }
    repository.write("m", 2, FLOATS, &constant(2.0));
    repository.server.load("m").unwrap();
    assert_eq!(of_version(&repository, None), 2.0);
}

#[test]
fn what_cannot_be_loaded_says_why() {
    let repository = Repository::new();
    let raises = "
class TritonPythonModel:
    def initialize(self, args):
        raise RuntimeError('no weights')
    def execute(self, requests):
        pass
";
    let schedules = "
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_dynamic_batching()
        return config
";
    for (name, config, code, words) in [
        ("raises", FLOATS, raises, "RuntimeError: no weights"),
        ("empty", FLOATS, "", "has no class TritonPythonModel"),
        ("wrong", "max_batch_size: -1", "", "max_batch_size: it must be 0 or more"),
        ("other", "backend: \"onnxruntime\"", "", "`onnxruntime`"),
        ("syntax", FLOATS, "def", "SyntaxError"),
        (
            "schedulers",
            "max_batch_size: 2 sequence_batching { }",
            schedules,
            "'sequence_batching', but auto-complete",
        ),
        (
            "venv",
            "parameters { key: \"EXECUTION_ENV_PATH\" value { string_value: \"$$TRITON_MODEL_DIRECTORY/env.tar.gz\" } }",
            "",
            "venv/env.tar.gz is not a folder",
        ),
    ] {
        repository.write(name, 1, config, code);
        let error = repository.server.load(name).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(name), "{name}: {error}");
        assert_eq!(repository.server.model(name, None).err().unwrap().code, Code::Unavailable);
    }
    std::fs::create_dir(repository.path().join("bare")).unwrap();
    assert!(matches!(repository.server.load("bare"), Err(LoadError::NoVersion { .. })));
    for name in ["absent", "..", "../m", "", "raises/1"] {
        assert!(matches!(repository.server.load(name), Err(LoadError::Unknown { .. })), "{name}");
    }
    assert_eq!(repository.server.model("absent", None).err().unwrap().code, Code::NotFound);
}

#[test]
fn requests_that_come_together_are_one_batch() {
    let repository = Repository::new();
    // The first call takes long, so that the others wait together.
    let code = "
import time

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.3)
        count = np.full(1, len(requests), np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', count.copy())]) for _ in requests]
";
    let model = repository.model("batches", &format!("{FLOATS} dynamic_batching {{ }}"), code);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| answer(&model, floats(&[0.0])));
        while model.statistics().executions == 0 {
            std::thread::yield_now();
        }
        let others: Vec<_> =
            (0..10).map(|_| scope.spawn(|| answer(&model, floats(&[0.0])))).collect();
        assert_eq!(first.join().unwrap(), [1.0]);
        let mut sizes: Vec<f32> =
            others.into_iter().map(|other| other.join().unwrap()[0]).collect();
        sizes.sort_by(f32::total_cmp);
        assert_eq!(sizes, [2.0, 2.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0]);
    });
    assert_eq!((model.statistics().executions, model.statistics().inferences), (3, 11));
}

#[test]
fn instances_work_side_by_side_in_interpreters_of_their_own() {
    let repository = Repository::new();
    // Both instances wait for each other; each has a global of its own.
    let code = "
import time

calls = 0

class TritonPythonModel:
    def initialize(self, args):
        self.number = int(args['model_instance_name'].rpartition('_')[2])

    def execute(self, requests):
        global calls
        calls += 1
        time.sleep(0.5)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array([self.number, calls], np.float32))])]
";
    let model = repository.model("two", &format!("{FLOATS} instance_group {{ count: 2 }}"), code);
    let began = Instant::now();
    let mut answers = std::thread::scope(|scope| {
        let calls = [
            scope.spawn(|| answer(&model, floats(&[0.0]))),
            scope.spawn(|| answer(&model, floats(&[0.0]))),
        ];
        calls.map(|call| call.join().unwrap())
    });
    assert!(began.elapsed() < Duration::from_millis(950), "one after the other");
    answers.sort_by(|one, other| one[0].total_cmp(&other[0]));
    assert_eq!(answers, [[0.0, 1.0], [1.0, 1.0]]);
}

#[test]
fn an_unloaded_model_serves_who_waits_and_finalizes() {
    let repository = Repository::new();
    let code = format!(
        "{}
    def finalize(self):
        open(pb_utils.get_model_dir() + '/finalized', 'w').close()
",
        constant(3.0)
            .replace("        return", "        import time; time.sleep(0.2)\n        return")
    );
    let model = repository.model("m", FLOATS, &code);
    let (sender, answers) = channel();
    let tickets: Vec<_> = (0..3)
        .map(|_| {
            let sender = sender.clone();
            model.infer(floats(&[0.0]), move |event| {
                sender.send(event.response.unwrap().is_ok()).unwrap()
            })
        })
        .collect();
    repository.server.unload("m").unwrap();
    assert_eq!(answers.try_iter().collect::<Vec<_>>(), [true; 3]);
    assert!(repository.path().join("m/1/finalized").is_file());
    drop(tickets);
    assert_eq!(repository.server.model("m", None).err().unwrap().code, Code::Unavailable);
    assert!(failure(&model, floats(&[0.0])).contains("unloaded"));
    assert!(model.pool().is_none());
}

#[test]
fn a_client_that_goes_away_is_heard_of() {
    let repository = Repository::new();
    let code = "
import time

class TritonPythonModel:
    def execute(self, requests):
        (request,) = requests
        while not request.is_cancelled():
            time.sleep(0.01)
        error = pb_utils.TritonError('gone', pb_utils.TritonError.CANCELLED)
        return [pb_utils.InferenceResponse(error=error)]
";
    let model = repository.model("waits", FLOATS, code);
    let (sender, answers) = channel();
    let of = |name: &'static str| {
        let sender = sender.clone();
        model.infer(floats(&[0.0]), move |event| {
            drop(sender.send((name, event.response.unwrap().unwrap_err())))
        })
    };
    let (first, second) = (of("first"), of("second"));
    while model.statistics().executions == 0 {
        std::thread::yield_now();
    }
    // The second one waits in the queue, and never reaches the model.
    drop(second);
    first.cancel();
    let mut heard: Vec<_> =
        answers.iter().take(2).map(|(name, failure)| (name, failure.code)).collect();
    heard.sort_by_key(|(name, _)| *name);
    assert_eq!(heard, [("first", Code::Cancelled), ("second", Code::Cancelled)]);
    assert_eq!(model.statistics().executions, 1);
}

#[test]
fn a_model_loads_and_unloads_models() {
    let repository = Repository::new();
    repository.write("m", 1, FLOATS, &constant(1.0));
    let code = "
SOURCE = b'''
class TritonPythonModel:
    def execute(self, requests):
        pass
'''

class TritonPythonModel:
    def execute(self, requests):
        seen = [pb_utils.is_model_ready('m')]
        pb_utils.load_model(model_name='m')
        seen += [pb_utils.is_model_ready('m'), pb_utils.is_model_ready('m', '1'), pb_utils.is_model_ready('m', '2')]
        pb_utils.unload_model('m')
        seen.append(pb_utils.is_model_ready('m'))
        pb_utils.load_model('own', config='{}', files={'file:1/model.py': SOURCE})
        seen.append(pb_utils.is_model_ready('own'))
        try:
            pb_utils.load_model('absent')
        except pb_utils.TritonModelException as error:
            assert 'no repository has a model `absent`' in str(error)
        else:
            raise AssertionError
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array(seen, np.float32))])]
";
    let model = repository.model("loads", FLOATS, code);
    assert_eq!(answer(&model, floats(&[0.0])), [0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
}

#[test]
fn a_load_may_have_a_configuration_and_files_of_its_own() {
    let repository = Repository::new();
    let server = &repository.server;
    repository.model("m", FLOATS, &constant(1.0));
    let json = |more: &str| {
        let tensor = |name| {
            format!("[{{ \"name\": \"{name}\", \"data_type\": \"TYPE_FP32\", \"dims\": [ -1 ] }}]")
        };
        format!("{{ \"input\": {}, \"output\": {} {more} }}", tensor("IN"), tensor("OUT"))
    };
    let with = |config: Option<String>, files: &[(&str, &str)]| {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), source(text).into()));
        Overrides { config, files: files.collect() }
    };
    // A number may be a text, as in all JSON of protocol buffers.
    let config = with(Some(json(", \"max_batch_size\": \"16\"")), &[]);
    server.load_with("m", &config).unwrap();
    assert_eq!(server.model("m", None).unwrap().config().max_batch_size(), 16);
    assert_eq!(of_version(&repository, None), 1.0);

    let changed = constant(2.0)
        + "
    def initialize(self, args):
        self.folder = args['model_repository']
        open(self.folder + '/1/notes', 'w').close()
";
    let files = with(
        Some(json(", \"max_batch_size\": 8")),
        &[("file:1/model.py", &changed), ("file:/3/model.py", &constant(3.0))],
    );
    for name in ["m", "new"] {
        let all = json(", \"max_batch_size\": 8, \"version_policy\": { \"all\": {} }");
        server.load_with(name, &Overrides { config: Some(all), ..files.clone() }).unwrap();
        let of = |version| answer(&server.model(name, Some(version)).unwrap(), floats(&[0.0]))[0];
        assert_eq!((of(1), of(3)), (2.0, 3.0));
    }
    let made = || {
        let folders = |place: &Path| std::fs::read_dir(place).into_iter().flatten().flatten();
        // One folder for each server, and in it one for each load. Other tests have servers, too.
        let servers = folders(&std::env::temp_dir()).map(|entry| entry.path());
        let loads = servers.filter(|path| path.display().to_string().contains("hydrozoa-serve-"));
        let loads = loads.flat_map(|path| folders(&path).collect::<Vec<_>>());
        loads.filter(|entry| entry.path().join("new/1/notes").exists()).count()
    };
    assert_eq!(made(), 1);
    server.unload("new").unwrap();
    assert_eq!(made(), 0, "the files go with the model");
    assert!(matches!(server.load("new"), Err(LoadError::Unknown { .. })));
    // The repository's again.
    server.load("m").unwrap();
    assert_eq!(of_version(&repository, None), 1.0);
    assert_eq!(server.versions("m"), [1]);

    let long = format!("file:{}", "A".repeat(256));
    let config = || Some("{}".to_owned());
    for (name, overrides, words) in [
        ("absent", with(config(), &[]), "no repository has a model `absent`"),
        ("m", with(Some("\"parameters\": {".to_owned()), &[]), "the load's `config`: "),
        ("m", with(Some("{ \"max_batch_sizes\": 1 }".to_owned()), &[]), "max_batch_sizes"),
        ("m", with(Some("{ \"name\": \"n\" }".to_owned()), &[]), "both must be the same"),
        ("m", with(None, &[("file:1/model.py", "")]), "the load's files need a `config`"),
        ("m", with(config(), &[("1/model.py", "")]), "parameter '1/model.py' is unknown"),
        (
            "m",
            with(config(), &[("file:../1/model.py", "")]),
            "`../1/model.py` is not a path within",
        ),
        (
            "m",
            with(config(), &[("file://tmp/model.py", "")]),
            "`/tmp/model.py` is not a path within",
        ),
        ("m", with(config(), &[("file:", "")]), "file `` is not a path within the model's folder"),
        (
            "m",
            with(config(), &[(&long, "a")]),
            "failed to poll from model repository: model `m`: writing",
        ),
        ("m", with(config(), &[("file:model.py", "")]), "has no version to serve"),
        ("../m", with(config(), &[("file:1/model.py", "")]), "no repository has a model `../m`"),
        ("new", with(config(), &[("file:1/model.py", "raise OSError('no')")]), "OSError: no"),
    ] {
        let error = server.load_with(name, &overrides).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(of_version(&repository, None), 1.0, "what served goes on");
    }
}

#[test]
fn a_model_may_replace_and_unload_itself() {
    let repository = Repository::new();
    let code = "
class TritonPythonModel:
    def initialize(self, args):
        # This load cannot wait for itself.
        try:
            pb_utils.load_model('m')
        except pb_utils.TritonModelException as error:
            assert 'is being loaded' in str(error), error
        else:
            raise AssertionError

    def execute(self, requests):
        change = pb_utils.load_model if requests[0].inputs()[0].as_numpy()[0][0] else pb_utils.unload_model
        change('m')
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.ones(1, np.float32))])]
";
    let first = repository.model("m", FLOATS, code);
    assert_eq!(answer(&first, floats(&[1.0])), [1.0]);
    let second = repository.server.model("m", None).unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    assert_eq!(answer(&second, floats(&[0.0])), [1.0]);
    assert!(!repository.server.is_ready("m", ""));
}

#[test]
fn a_model_calls_models() {
    let repository = Repository::new();
    repository.model("m", FLOATS, &constant(5.0));
    let many = "
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(3):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array([number], np.float32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
";
    repository.model("many", &decoupled(), many);
    let calls = "
import asyncio

def request(name, **more):
    tensor = pb_utils.Tensor('IN', np.zeros((1, 1), np.float32))
    return pb_utils.InferenceRequest(model_name=name, requested_output_names=['OUT'], inputs=[tensor], **more)

def value(response):
    assert not response.has_error(), response.error().message()
    array = pb_utils.get_output_tensor_by_name(response, 'OUT').as_numpy()
    array += 0  # it can be written
    return float(array[0])

class TritonPythonModel:
    async def execute(self, requests):
        values = [value(request('m').exec()), value(request('m', model_version=1).exec())]
        responses = request('many').exec(decoupled=True)
        values.append(value(next(responses)))
        for response in responses:  # the second one
            break
        assert value(response) == 1.0
        for _ in range(2):
            # The last one is empty: the model has only said that there is no more.
            *some, last = responses
            assert not last.output_tensors() and not last.has_error()
            values += [value(response) for response in some]
        both = await asyncio.gather(request('m').async_exec(), request('m').async_exec())
        values += [value(response) for response in both]
        for name, words in (('many', 'decoupled'), ('absent', 'is not found')):
            error = request(name).exec().error()
            assert words in error.message(), error.message()
        assert request('absent').exec().error().code() == pb_utils.TritonError.NOT_FOUND
        wrong = pb_utils.InferenceRequest(model_name='m', requested_output_names=['OUT'], inputs=[])
        assert 'missing required input' in wrong.exec().error().message()
        tensor = pb_utils.Tensor('OUT', np.array(values, np.float32))
        return [pb_utils.InferenceResponse([tensor]) for _ in requests]
";
    let model = repository.model("calls", FLOATS, calls);
    assert_eq!(answer(&model, floats(&[0.0])), [5.0, 5.0, 0.0, 2.0, 0.0, 1.0, 2.0, 5.0, 5.0]);
}

#[test]
fn reloads_under_load_lose_nothing() {
    let repository = Repository::new();
    repository.model("m", FLOATS, &constant(0.0));
    let is_over = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut last, mut count) = (0.0, 0);
                    while !is_over.load(Ordering::Relaxed) {
                        let (sender, events) = channel();
                        let respond = move |event: Event| drop(sender.send(event.response));
                        let request = floats(&[0.0]);
                        let (model, _ticket) =
                            repository.server.infer("m", None, request, respond).unwrap();
                        let response = events.recv().unwrap().unwrap().unwrap();
                        let value = common::as_floats(&response.outputs[0])[0];
                        assert!(value >= last, "version {value} after {last}");
                        assert_eq!(value.max(1.0), model.version() as f32);
                        (last, count) = (value, count + 1);
                    }
                    (last, count)
                })
            })
            .collect();
        for version in 1..=4 {
            repository.write("m", version, FLOATS, &constant(version as f32));
            repository.server.load("m").unwrap();
        }
        assert_eq!(of_version(&repository, None), 4.0);
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            let (last, count) = client.join().unwrap();
            assert!(last <= 4.0 && count > 0);
        }
    });
    let model = repository.server.model("m", None).unwrap();
    assert!(response(&model, floats(&[0.0])).is_ok());
}
