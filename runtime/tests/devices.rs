//! Storages on devices: uploaded once for all interpreters, refused by a typed error if the device does
//! not exist.
//!
//! The tests of "once per device" use a device that is main memory (`Fake`). Its uploads are copies, and
//! it counts them. Tests that need a GPU run if torch sees one. The tests of its absence run if it sees
//! none.

mod common;

use common::{alone, floats, venv};
use hydrozoa::movable::shared_memory;
use hydrozoa::package::{Archive, Weights};
use hydrozoa::{DataType, Device, Error, Movable, Package, Pool, Session, Tensor};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::thread;

const INTERPRETERS: usize = 3;

/// Storages of the exported model: six weights and six biases. Two of the weights are tied.
const STORAGES: usize = 11;

/// The requests to the fake device, and whether its memory is full.
#[derive(Default)]
struct Device0 {
    uploads: Mutex<usize>,
    finished: Mutex<usize>,
    full: Mutex<bool>,
}

static DEVICE: OnceLock<Arc<Device0>> = OnceLock::new();

impl Device0 {
    fn uploads(&self) -> usize {
        *self.uploads.lock().unwrap()
    }

    fn finished(&self) -> usize {
        *self.finished.lock().unwrap()
    }
}

const FAKE: &str = "
import time
import torch
from _hydrozoa import devices

class Fake:
    def __init__(self, note, kind):
        self.note, self.kind = note, kind
    def obstacle(self, index):
        return 'it is switched off' if index == 9 else None
    def current(self):
        return 0
    def upload(self, storage, index):
        time.sleep(0.005)  # Others have time to ask meanwhile.
        if storage.nbytes():
            self.note('upload')
        return torch.empty(0, dtype=torch.uint8).set_(storage).clone().untyped_storage()
    def place(self, index):
        return self.kind, index
    def finish(self, index):
        self.note('finish')
    def follow(self, index):
        pass

def register(name, note, kind):
    devices.BACKENDS[name] = Fake(note, kind)
def unregister(name):
    del devices.BACKENDS[name]
def pointers(model):
    return {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}
";

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| {
        let pool = Pool::builder().venv(venv()).interpreters(INTERPRETERS).build().unwrap();
        for interpreter in pool.interpreters() {
            let session = interpreter.session();
            session.import("torch").unwrap().call_method("set_num_threads", (1,)).unwrap();
            register(&session, "fake", 1);
        }
        pool
    })
}

fn device() -> &'static Device0 {
    DEVICE.get_or_init(Arc::default)
}

/// Makes a backend known to an interpreter. Its memory has that DLPack device type.
fn register(session: &Session, name: &str, kind: i32) {
    let note = session
        .function("note", |session, arguments| {
            match arguments.extract::<String>(0)?.as_str() {
                "upload" if *device().full.lock().unwrap() => {
                    return Err(Error::Configuration("the device is full".to_owned()));
                }
                "upload" => *device().uploads.lock().unwrap() += 1,
                _ => *device().finished.lock().unwrap() += 1,
            }
            session.none()
        })
        .unwrap();
    let module = session.run(FAKE, "fake.py").unwrap();
    module.getattr("register").unwrap().call((name, note, kind)).unwrap();
}

fn exported() -> &'static Path {
    static EXPORTED: OnceLock<PathBuf> = OnceLock::new();
    EXPORTED.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("devices");
        std::fs::create_dir_all(&folder).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export_devices.py");
        let status = Command::new(venv().join("bin/python"))
            .args(["-W", "ignore"])
            .args([&script, &folder])
            .status()
            .unwrap();
        assert!(status.success(), "{} failed", script.display());
        folder
    })
}

fn package(location: &str) -> Package {
    pool().load_package(exported().join(format!("{}.pt", location.replace(':', "_")))).unwrap()
}

fn sees_cuda() -> bool {
    let session = pool().acquire_on(0).unwrap();
    let available = session.import("torch.cuda").unwrap().call_method("is_available", ()).unwrap();
    available.truth().unwrap()
}

/// The model's output for the exported input. The input lies on the device of the model's weights.
fn infer(session: &Session, model: &Movable) -> Vec<f32> {
    let code = "def infer(model, x):\n    return model(x.to(model[0].weight.device)).cpu()\n";
    let x = Tensor::from_vec(floats(&exported().join("input")), &[1, 16]).unwrap();
    let infer = session.run(code, "infer.py").unwrap().getattr("infer").unwrap();
    let y = infer.call((model.to_object(session).unwrap(), x)).unwrap();
    y.extract::<Tensor>().unwrap().to_vec().unwrap()
}

fn is_right(session: &Session, model: &Movable) -> bool {
    infer(session, model) == floats(&exported().join("output"))
}

fn pointers(session: &Session, model: &Movable) -> BTreeMap<String, u64> {
    let model = model.to_object(session).unwrap();
    let helpers = session.run(FAKE, "fake.py").unwrap();
    helpers.getattr("pointers").unwrap().call((model,)).unwrap().extract().unwrap()
}

fn collect() {
    // A storage in one interpreter may keep objects of another: the second round releases them.
    for interpreter in pool().interpreters().into_iter().chain(pool().interpreters()) {
        interpreter.drain();
        interpreter.session().import("gc").unwrap().call_method("collect", ()).unwrap();
    }
}

#[test]
fn eight_threads_on_three_interpreters_upload_each_storage_once() {
    let _alone = alone();
    let pool = pool();
    collect();
    let before = (shared_memory(), device().uploads(), device().finished());
    for round in 1..=3 {
        let package = package("fake:0");
        let model = Mutex::new(None::<Movable>);
        let barrier = Barrier::new(8);
        let addresses: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|number| {
                    let (package, model, barrier) = (&package, &model, &barrier);
                    scope.spawn(move || {
                        let session = pool.acquire_on(number % INTERPRETERS).unwrap();
                        // Each thread has an object of its own, beside those of one movable. All act at once.
                        barrier.wait();
                        let importer = package.importer(&session).unwrap();
                        let own =
                            importer.call_method("load_pickle", ("model", "model.pkl")).unwrap();
                        let movable = {
                            let mut model = model.lock().unwrap();
                            model
                                .get_or_insert_with(|| {
                                    package.load_pickle("model", "model.pkl").unwrap()
                                })
                                .clone()
                        };
                        assert!(is_right(&session, &movable));
                        let all = pointers(&session, &movable);
                        let weight = own.get_item(0).unwrap().getattr("weight").unwrap();
                        let weight: u64 =
                            weight.call_method("data_ptr", ()).unwrap().extract().unwrap();
                        assert_eq!(weight, all["0.weight"]);
                        all
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(addresses.iter().all(|all| *all == addresses[0]), "{addresses:?}");
        assert_eq!(addresses[0]["1.weight"], addresses[0]["3.weight"]);
        assert_eq!(device().uploads() - before.1, round * STORAGES);
        drop(model);
        drop(package);
        collect();
        assert_eq!(shared_memory(), before.0, "the last user has given everything back");
        assert_eq!(device().finished() - before.2, round * STORAGES, "after the device was done");
    }
}

#[test]
fn the_storages_of_a_package_stay_on_the_device_while_somebody_uses_them() {
    let _alone = alone();
    collect();
    let (memory, before) = (shared_memory(), device().uploads());
    let package = package("cpu");
    let model = package.load_pickle_mapped("model", "model.pkl", "fake:0").unwrap();
    let sessions: Vec<_> =
        pool().interpreters().iter().map(|interpreter| interpreter.session()).collect();
    let first = pointers(&sessions[0], &model);
    for session in &sessions {
        assert!(is_right(session, &model));
    }
    assert_eq!(device().uploads() - before, STORAGES);
    // The interpreter that uploaded them drops its copy. The others continue.
    for gone in [0, 1] {
        model.unload(&sessions[gone]);
        collect();
        assert!(is_right(&sessions[2], &model));
    }
    assert_eq!(pointers(&sessions[0], &model), first);
    assert_eq!(device().uploads() - before, STORAGES);
    // Moved again, as an object of an interpreter that only borrowed them.
    let moved = {
        let object = model.to_object(&sessions[2]).unwrap();
        sessions[2].create_movable(&object).unwrap()
    };
    drop(model);
    assert_eq!(pointers(&sessions[1], &moved), first);
    drop(moved);
    collect();
    // Nothing uses them any more: the next upload is a new one.
    let again = package.load_pickle_mapped("model", "model.pkl", [("cpu", "fake:0")]).unwrap();
    assert!(is_right(&sessions[1], &again));
    assert_eq!(device().uploads() - before, 2 * STORAGES);
    drop((again, package, sessions));
    collect();
    assert_eq!(shared_memory(), memory);
}

#[test]
fn an_upload_that_fails_is_an_error_for_all_and_the_next_one_is_tried() {
    let _alone = alone();
    let package = package("fake:0");
    *device().full.lock().unwrap() = true;
    let load = |number: usize| {
        let session = pool().acquire_on(number % INTERPRETERS).unwrap();
        let loaded = package
            .importer(&session)
            .unwrap()
            .call_method("load_pickle", ("model", "model.pkl"))
            .map(drop);
        loaded.map_err(|error| error.to_string())
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || load(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    *device().full.lock().unwrap() = false;
    for outcome in outcomes {
        assert_eq!(outcome, Err("RuntimeError: the device is full".to_owned()));
    }
    for number in 0..INTERPRETERS {
        assert_eq!(load(number), Ok(()));
    }
}

#[test]
fn read_only_storages_on_a_device_compute_and_refuse_to_be_written() {
    let _alone = alone();
    let archive = Archive::open(exported().join("fake_0.pt")).unwrap();
    let package = pool().load_archive_with(archive, Weights::ReadOnly);
    let model = package.load_pickle("model", "model.pkl").unwrap();
    for interpreter in pool().interpreters() {
        let session = interpreter.session();
        assert!(is_right(&session, &model));
        let weight = model.to_object(&session).unwrap().get_item(0).unwrap().getattr("weight");
        let error = weight.unwrap().call_method("add_", (1,)).unwrap_err();
        assert!(error.to_string().starts_with("RuntimeError"), "{error}");
    }
}

#[test]
fn a_device_that_cannot_be_used_is_an_error_that_names_package_storage_and_device() {
    let _alone = alone();
    let package = package("fake:9");
    let error = package.load_pickle("model", "model.pkl").unwrap_err();
    let Error::Device(error) = error else { panic!("{error:?}") };
    assert_eq!((error.device.as_str(), error.reason.as_str()), ("fake:9", "it is switched off"));
    assert!(error.what.contains("fake_9.pt") && error.what.contains(".storage"), "{error}");
    assert!(error.to_string().contains("map_location"), "{error}");
    // The same holds if Python code loads it.
    let session = package.acquire_session().unwrap();
    let code = "def load(importer):\n    return importer.load_pickle('model', 'model.pkl')\n";
    let load = session.run(code, "load.py").unwrap().getattr("load").unwrap();
    let error = load.call((session.importer().unwrap(),)).unwrap_err();
    assert!(matches!(error, Error::Device(_)), "{error:?}");
    // A program that expects the error sees a RuntimeError, as torch raises it.
    let code = "
def load(importer):
    try:
        importer.load_pickle('model', 'model.pkl')
    except RuntimeError as error:
        return str(error)
";
    let load = session.run(code, "load.py").unwrap().getattr("load").unwrap();
    let text: String = load.call((session.importer().unwrap(),)).unwrap().extract().unwrap();
    assert_eq!(text, error.to_string());
}

#[test]
fn a_package_saved_on_a_gpu_is_loaded_there_or_where_it_is_mapped_to() {
    let _alone = alone();
    let package = package("cuda:0");
    if sees_cuda() {
        let model = package.load_pickle("model", "model.pkl").unwrap();
        let all: Vec<_> = pool()
            .interpreters()
            .iter()
            .map(|interpreter| {
                let session = interpreter.session();
                let (found, right) = (infer(&session, &model), floats(&exported().join("output")));
                assert!(found.iter().zip(&right).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?}");
                pointers(&session, &model)
            })
            .collect();
        assert!(all.iter().all(|addresses| *addresses == all[0]), "{all:?}");
    } else {
        let error = package.load_pickle("model", "model.pkl").unwrap_err();
        let Error::Device(error) = error else { panic!("{error:?}") };
        assert_eq!(error.device, "cuda:0");
        assert!(error.reason.contains("CUDA"), "{error}");
        assert!(error.what.contains("cuda_0.pt"), "{error}");
    }
    let session = pool().acquire_on(1).unwrap();
    for model in [
        package.load_pickle_mapped("model", "model.pkl", "cpu").unwrap(),
        package.load_pickle_mapped("model", "model.pkl", [("cuda:0", "cpu")]).unwrap(),
    ] {
        assert!(is_right(&session, &model));
    }
    // Python's importer takes all that torch.load takes.
    let code = "
import torch
def load(importer):
    for location in 'cpu', {'cuda:0': 'cpu'}, torch.device('cpu'), lambda storage, location: storage:
        model = importer.load_pickle('model', 'model.pkl', map_location=location)
        assert model[0].weight.device.type == 'cpu'
";
    let load = session.run(code, "load.py").unwrap().getattr("load").unwrap();
    load.call((package.importer(&session).unwrap(),)).unwrap();
}

#[test]
fn a_device_number_beyond_those_that_are_there_is_refused() {
    let _alone = alone();
    let error = package("cuda:99").load_pickle("model", "model.pkl").unwrap_err();
    let Error::Device(error) = error else { panic!("{error:?}") };
    assert_eq!(error.device, "cuda:99");
    for resource in ["model.pkl", "script.pkl"] {
        let error = package("cpu").load_pickle_mapped("model", resource, "cuda:99").unwrap_err();
        assert!(matches!(error, Error::Device(_)), "{error:?}");
    }
}

#[test]
fn a_movable_waits_for_the_device_before_it_is_handed_over_and_before_it_is_freed() {
    let _alone = alone();
    let pool = pool();
    collect();
    let (memory, before) = (shared_memory(), device().finished());
    let code = "import torch\nm = torch.nn.Linear(32, 1, bias=False).requires_grad_(False)\nm.weight.fill_(3)\n";
    let session = pool.acquire_on(0).unwrap();
    let made = session.run(code, "made.py").unwrap().getattr("m").unwrap();
    // Main memory that stands for a device's, in the interpreter that owns it.
    register(&session, "cpu", 1);
    let movable = session.create_movable(&made).unwrap();
    assert_eq!(device().finished() - before, 1, "before it is handed over");
    drop(made);
    let other = pool.acquire_on(1).unwrap();
    let x = Tensor::from_vec(vec![1.0_f32; 32], &[1, 32]).unwrap();
    let y: Tensor = movable.to_object(&other).unwrap().call((&x,)).unwrap().extract().unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [96.0]);
    drop((y, movable));
    collect();
    assert_eq!(device().finished() - before, 2, "before it is freed");
    let helpers = session.run(FAKE, "fake.py").unwrap();
    helpers.getattr("unregister").unwrap().call(("cpu",)).unwrap();
    drop(helpers);
    assert_eq!(shared_memory(), memory);
}

#[test]
fn a_movable_on_a_gpu_that_is_not_there_is_refused() {
    let _alone = alone();
    if sees_cuda() {
        return a_movable_on_a_gpu_is_shared_there();
    }
    let session = pool().acquire_on(0).unwrap();
    let code = "import torch\nm = torch.nn.Linear(32, 1, bias=False).requires_grad_(False)\n";
    let made = session.run(code, "made.py").unwrap().getattr("m").unwrap();
    // Main memory that this interpreter declares as a GPU's: 2 is kDLCUDA.
    register(&session, "cpu", 2);
    let movable = session.create_movable(&made);
    let helpers = session.run(FAKE, "fake.py").unwrap();
    helpers.getattr("unregister").unwrap().call(("cpu",)).unwrap();
    let other = pool().acquire_on(1).unwrap();
    let error = movable.unwrap().to_object(&other).unwrap_err();
    let Error::Device(error) = error else { panic!("{error:?}") };
    assert_eq!(
        (error.what.as_str(), error.device.as_str()),
        ("a storage of 128 bytes of a movable", "cuda:0")
    );
}

/// With a GPU: by reference, and in the order of the queued work.
fn a_movable_on_a_gpu_is_shared_there() {
    let session = pool().acquire_on(0).unwrap();
    let code = "import torch\nm = torch.nn.Linear(32, 1, bias=False).requires_grad_(False)\nm.weight.fill_(3)\nm.cuda()\n";
    let made = session.run(code, "made.py").unwrap().getattr("m").unwrap();
    let movable = session.create_movable(&made).unwrap();
    let all: Vec<_> = pool()
        .interpreters()
        .iter()
        .map(|interpreter| {
            let session = interpreter.session();
            let code =
                "import torch\ndef f(m):\n    return float(m(torch.ones(1, 32, device='cuda')))\n";
            let f = session.run(code, "call.py").unwrap().getattr("f").unwrap();
            let y: f64 =
                f.call((movable.to_object(&session).unwrap(),)).unwrap().extract().unwrap();
            assert_eq!(y, 96.0);
            pointers(&session, &movable)
        })
        .collect();
    assert!(all.iter().all(|addresses| *addresses == all[0]), "{all:?}");
}

#[test]
fn a_tensor_on_a_gpu_that_is_not_there_is_refused() {
    let _alone = alone();
    if sees_cuda() {
        // A tensor goes out and comes in, over the same memory.
        let session = pool().acquire_on(0).unwrap();
        let there = session.eval("__import__('torch').arange(4.0, device='cuda')").unwrap();
        let tensor: Tensor = there.extract().unwrap();
        assert_eq!(tensor.device(), Device::cuda(0));
        assert!(tensor.to_vec::<f32>().is_err());
        let other = pool().acquire_on(1).unwrap();
        let back = other.object_from(&tensor).unwrap().call_method("tolist", ()).unwrap();
        assert_eq!(back.extract::<Vec<f64>>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
        return;
    }
    let mut elements = vec![0.0_f32; 6];
    let data = elements.as_mut_ptr().cast();
    // SAFETY: the vector owns six elements. They are not on a GPU, which is the point of the test: no
    // code gets as far as touching them.
    let tensor = unsafe {
        Tensor::from_raw_parts(
            data,
            DataType::F32,
            Device::cuda(0),
            &[2, 3],
            &[3, 1],
            false,
            elements,
        )
    };
    let error = pool().acquire_on(0).unwrap().object_from(&tensor).unwrap_err();
    let Error::Device(error) = error else { panic!("{error:?}") };
    assert_eq!(
        (error.what.as_str(), error.device.as_str()),
        ("a tensor of shape [2, 3]", "cuda:0")
    );
    assert!(tensor.to_vec::<f32>().is_err());
}

#[test]
fn interpreters_end_although_their_own_tensors_are_on_the_device() {
    let _alone = alone();
    collect();
    let before = device().uploads();
    let pool = Pool::builder().venv(venv()).interpreters(2).build().unwrap();
    let package = pool.load_package(exported().join("fake_0.pt")).unwrap();
    let ends: [_; 2] = std::array::from_fn(|_| Arc::new(AtomicU8::new(0)));
    let code = "
import atexit, builtins
def keep(model, count):
    builtins.kept = model
    @atexit.register
    def exit(): count[0] += 1
";
    for (index, ends) in ends.iter().enumerate() {
        let session = pool.acquire_on(index).unwrap();
        register(&session, "fake", 1);
        // SAFETY: one byte that the owner keeps alive and that Rust only accesses atomically.
        let count = unsafe { session.lend_raw(ends.as_ptr(), 1, false, ends.clone()) }.unwrap();
        let importer = package.importer(&session).unwrap();
        let model = importer.call_method("load_pickle", ("model", "model.pkl")).unwrap();
        let keep = session.run(code, "keep.py").unwrap().getattr("keep").unwrap();
        keep.call((model, count)).unwrap();
    }
    assert_eq!(device().uploads() - before, STORAGES);
    let counts = || ends.each_ref().map(|count| count.load(Ordering::SeqCst));
    let session = pool.acquire_on(1).unwrap();
    drop((package, pool));
    // The first one has uploaded the storages that the second one uses.
    assert_eq!(counts(), [0, 0]);
    let weight = session.eval("__import__('builtins').kept[0].weight.sum().item()").unwrap();
    assert!(weight.extract::<f64>().unwrap().is_finite());
    drop(weight);
    // With torch, Python's end leaves behind tensors that modules refer to. Those of the second
    // interpreter are in memory of the first and would keep it. Those of the first keep no interpreter.
    session.run("import builtins\ndel builtins.kept\n", "forget.py").unwrap();
    drop(session);
    assert_eq!(counts(), [1, 1]);
}
