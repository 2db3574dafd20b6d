//! Models that stock torch.package has exported, on several interpreters with stock torch.

mod common;

use common::{alone, exported, floats, venv};
use hydrozoa::memory::Usage;
use hydrozoa::movable::{SharedMemory, shared_memory};
use hydrozoa::package::{Archive, Weights};
use hydrozoa::{Movable, Pool, Session, Tensor};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Starting interpreters with torch takes a second each: all tests share these two.
fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| {
        let pool = Pool::builder().venv(venv()).interpreters(2).build().unwrap();
        for interpreter in pool.interpreters() {
            let session = interpreter.session();
            let torch = session.import("torch").unwrap();
            torch.call_method("set_num_threads", (1,)).unwrap();
        }
        pool
    })
}

const HELPERS: &str = "
import torch, gc
def infer(model, x):
    with torch.no_grad():
        return model(x)
def pointers(model):
    return {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}
def storages():
    gc.collect()
    return sum(isinstance(o, torch.nn.Module) for o in gc.get_objects())
";

fn infer(session: &Session, model: &Movable, x: &Tensor) -> Vec<f32> {
    let helpers = session.run(HELPERS, "helpers.py").unwrap();
    let model = model.to_object(session).unwrap();
    let y = helpers.getattr("infer").unwrap().call((model, x)).unwrap();
    y.extract::<Tensor>().unwrap().to_vec::<f32>().unwrap()
}

fn pointers(session: &Session, model: &Movable) -> BTreeMap<String, u64> {
    let helpers = session.run(HELPERS, "helpers.py").unwrap();
    let model = model.to_object(session).unwrap();
    helpers.getattr("pointers").unwrap().call((model,)).unwrap().extract().unwrap()
}

fn collect(pool: &Pool) {
    for interpreter in pool.interpreters() {
        interpreter.drain();
        let session = interpreter.session();
        session.import("gc").unwrap().call_method("collect", ()).unwrap();
    }
}

/// The shared memory when nothing of an earlier test is left. The thread of that test may still be
/// ending. On its way out it frees what it takes from an interpreter's queue, and [`collect`] does not.
fn settled(pool: &Pool) -> SharedMemory {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        collect(pool);
        let shared = shared_memory();
        if shared.ranges == 0 || Instant::now() > deadline {
            return shared;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_areas_of_the_python_side_pass_in_plain_python() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let status = std::process::Command::new(venv().join("bin/python"))
        .arg(root.join("tests/scripts/package_areas.py"))
        .arg(root.join("payload/python"))
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn models_agree_with_plain_python_to_the_bit_on_two_interpreters_at_once() {
    let _alone = alone();
    let pool = pool();
    for name in ["mobilenet_v3_small", "resnet18"] {
        let package = pool.load_package(exported().join(format!("{name}.pt"))).unwrap();
        assert_eq!(package.load_text("model", "labels.txt").unwrap(), "one\ntwo\n");
        let model = package.load_pickle("model", "model.pkl").unwrap();
        let x = floats(&exported().join(format!("{name}.input")));
        let expected = floats(&exported().join(format!("{name}.output")));
        thread::scope(|scope| {
            for interpreter in pool.interpreters() {
                let (model, x, expected) = (&model, &x, &expected);
                scope.spawn(move || {
                    let session = interpreter.session();
                    let x = Tensor::from_vec(x.clone(), &[1, 3, 224, 224]).unwrap();
                    for _ in 0..3 {
                        let y = infer(&session, model, &x);
                        let same = y.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits());
                        assert!(same && y.len() == expected.len(), "{name} differs");
                    }
                });
            }
        });
    }
}

#[test]
fn a_call_picks_an_interpreter_and_its_output_comes_back_without_its_history() {
    let _alone = alone();
    let package = pool().load_package(exported().join("resnet18.pt")).unwrap();
    let model = package.load_pickle("model", "model.pkl").unwrap();
    let x =
        Tensor::from_vec(floats(&exported().join("resnet18.input")), &[1, 3, 224, 224]).unwrap();
    let expected = floats(&exported().join("resnet18.output"));
    // The model's parameters require gradients, and so does its output.
    let y: Tensor = model.call((&x,)).unwrap().extract().unwrap();
    assert_eq!(y.shape(), [1, 1000]);
    assert_eq!(y.to_vec::<f32>().unwrap(), expected);
}

#[test]
fn all_interpreters_have_the_weights_at_the_same_addresses() {
    let _alone = alone();
    let pool = pool();
    let package = pool.load_package(exported().join("resnet18.pt")).unwrap();
    let model = package.load_pickle("model", "model.pkl").unwrap();
    let all: Vec<_> = pool
        .interpreters()
        .iter()
        .map(|interpreter| pointers(&interpreter.session(), &model))
        .collect();
    assert_eq!(all[0].len(), 122);
    assert_eq!(all[0], all[1]);
}

#[test]
fn a_further_interpreter_does_not_add_the_weights_to_private_memory() {
    let _alone = alone();
    let pool = pool();
    let package = pool.load_package(exported().join("resnet18.pt")).unwrap();
    let x = floats(&exported().join("resnet18.input"));
    let x = Tensor::from_vec(x, &[1, 3, 224, 224]).unwrap();
    let model = package.load_pickle("model", "model.pkl").unwrap();
    // After this both interpreters have torchvision's modules and torch's own buffers.
    for interpreter in pool.interpreters() {
        infer(&interpreter.session(), &model, &x);
    }
    model.unload(&pool.interpreters()[1].session());
    collect(pool);
    // When the session ends, malloc returns the memory that the load and the call used temporarily.
    let before = Usage::of_process().unwrap();
    infer(&pool.interpreters()[1].session(), &model, &x);
    let added = (Usage::of_process().unwrap() - before).private;
    println!("resnet18 (46.8 MB of weights) added {added} bytes of private memory");
    assert!(added < 46_800_000 / 10, "{added} bytes");
}

#[test]
fn a_module_moves_with_its_storages_and_is_freed_everywhere() {
    let _alone = alone();
    let pool = pool();
    let before = settled(pool);
    let counts = || -> Vec<i64> {
        pool.interpreters()
            .iter()
            .map(|interpreter| {
                let session = interpreter.session();
                let helpers = session.run(HELPERS, "helpers.py").unwrap();
                helpers.getattr("storages").unwrap().call(()).unwrap().extract().unwrap()
            })
            .collect()
    };
    let modules = counts();
    let model = {
        let session = pool.acquire_on(0).unwrap();
        let code = "import torch\n\
                    m = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))\n\
                    m[1].weight = m[0].weight\n\
                    m.register_buffer('row', m[0].weight.detach()[3])\n";
        let namespace = session.run(code, "model.py").unwrap();
        pool.create_movable(&namespace.getattr("m").unwrap()).unwrap()
    };
    assert!(model.copied().is_empty());
    let all: Vec<_> = pool
        .interpreters()
        .iter()
        .map(|interpreter| pointers(&interpreter.session(), &model))
        .collect();
    assert_eq!(all[0], all[1]);
    assert_eq!(all[1]["0.weight"], all[1]["1.weight"]);
    assert_eq!(all[1]["row"], all[1]["0.weight"] + 3 * 64 * 4);
    // Three storages: the tied weight and two biases. The buffer is a view of the weight.
    assert_eq!(shared_memory().ranges, before.ranges + 3);

    // Moved again, from an interpreter that only borrowed the memory. The owner is the same.
    let moved_on = {
        let session = pool.acquire_on(1).unwrap();
        pool.create_movable(&model.to_object(&session).unwrap()).unwrap()
    };
    assert_eq!(shared_memory().ranges, before.ranges + 3);
    drop(model);
    collect(pool);
    assert_eq!(pointers(&pool.interpreters()[1].session(), &moved_on), all[0]);
    assert_eq!(shared_memory().ranges, before.ranges + 3);

    let session = pool.acquire_on(0).unwrap();
    session.with_gil(|| drop(moved_on));
    drop(session);
    collect(pool);
    // A storage in one interpreter may keep objects of another: the second round releases them.
    collect(pool);
    assert_eq!(shared_memory(), before);
    assert_eq!(counts(), modules);
}

#[test]
fn a_tensor_becomes_torch_s_own_at_the_cost_of_torch_s_own_import() {
    let _alone = alone();
    let session = pool().acquire_on(0).unwrap();
    let from_dlpack = session.import("torch").unwrap().getattr("from_dlpack").unwrap();
    let tensor = Tensor::from_vec(vec![1_f32; 100], &[100]).unwrap();
    let [mut least, mut whole] = [Duration::MAX; 2];
    session.with_gil(|| {
        for _ in 0..60 {
            let begin = Instant::now();
            for _ in 0..50 {
                let carrier = session.lend_tensor(&tensor).unwrap();
                drop(from_dlpack.call((carrier,)).unwrap());
            }
            least = begin.elapsed().min(least);
            let begin = Instant::now();
            for _ in 0..50 {
                drop(session.object_from(&tensor).unwrap());
            }
            whole = begin.elapsed().min(whole);
        }
    });
    assert!(whole * 2 < least * 3, "{whole:?}, of which {least:?} is torch's");
}

#[test]
fn a_storage_that_interpreters_share_is_not_resized() {
    let _alone = alone();
    let pool = pool();
    let code = "import torch
weights = torch.arange(1000.)
def grow(t):
    try:
        # Of another tensor over the storage: torch sets the sizes first, and leaves them so.
        t.detach().resize_(1_000_000)
    except RuntimeError as error:
        return str(error)
def shrink(t):
    try:
        t.untyped_storage().resize_(0)
    except RuntimeError as error:
        return str(error)
";
    let session = pool.acquire_on(0).unwrap();
    let names = session.run(code, "resize.py").unwrap();
    let weights = names.getattr("weights").unwrap();
    let movable = pool.create_movable(&weights).unwrap();
    let other = pool.acquire_on(1).unwrap();
    let copy = movable.to_object(&other).unwrap();
    let others = other.run(code, "resize.py").unwrap();
    for (names, tensor) in [(&names, &weights), (&others, &copy)] {
        for change in ["grow", "shrink"] {
            let refused = names.getattr(change).unwrap().call((tensor,)).unwrap();
            let refused: Option<String> = refused.extract().unwrap();
            assert!(refused.is_some_and(|reason| reason.contains("not resizable")), "{change}");
        }
    }
    assert_eq!(
        weights.call_method("data_ptr", ()).unwrap().extract::<usize>().unwrap(),
        copy.call_method("data_ptr", ()).unwrap().extract::<usize>().unwrap()
    );
    let sum = copy.call_method("sum", ()).unwrap().call_method("item", ()).unwrap();
    assert_eq!(sum.extract::<f64>().unwrap(), 499_500.0);
    // The weights can be written in place, but not resized.
    weights.call_method("zero_", ()).unwrap();
    assert_eq!(copy.get_item(999).unwrap().extract::<f64>().unwrap(), 0.0);
}

#[test]
fn a_write_in_one_interpreter_is_seen_in_the_other_and_not_in_the_file() {
    let _alone = alone();
    let pool = pool();
    let path = exported().join("mobilenet_v3_small.pt");
    let file = std::fs::read(&path).unwrap();
    let package = pool.load_package(&path).unwrap();
    let model = package.load_pickle("model", "model.pkl").unwrap();
    let on = |index: usize, code: &str| -> f64 {
        let session = pool.acquire_on(index).unwrap();
        let namespace =
            session.run(&format!("import torch\ndef f(m):\n{code}"), "write.py").unwrap();
        let object = model.to_object(&session).unwrap();
        namespace.getattr("f").unwrap().call((object,)).unwrap().extract().unwrap()
    };
    let write =
        "    with torch.no_grad():\n        m.classifier[0].bias[5] = 42.5\n    return 0.0\n";
    on(0, write);
    assert_eq!(on(1, "    return float(m.classifier[0].bias[5])\n"), 42.5);
    assert_eq!(std::fs::read(&path).unwrap(), file);
}

/// More threads than interpreters make tensors in one interpreter, use them in others and drop them
/// anywhere. Every result is right, and nothing is left.
#[test]
fn movables_made_called_and_dropped_by_many_threads_leave_nothing() {
    let _alone = alone();
    let pool = pool();
    let before = settled(pool);
    let package = pool.load_package(exported().join("mobilenet_v3_small.pt")).unwrap();
    let shared = std::sync::Mutex::new(Vec::<(Movable, f64)>::new());
    thread::scope(|scope| {
        for thread in 0..8_usize {
            let (shared, package) = (&shared, &package);
            scope.spawn(move || {
                for round in 0..25_usize {
                    let value = (thread * 100 + round) as f64;
                    let session = pool.acquire_on((thread + round) % 2).unwrap();
                    let code = format!("import torch\nm = torch.nn.Linear(32, 1, bias=False)\nm.requires_grad_(False)\nm.weight.fill_({value})\n");
                    let made = session.run(&code, "made.py").unwrap().getattr("m").unwrap();
                    let movable = pool.create_movable(&made).unwrap();
                    drop(made);
                    drop(session);
                    let taken = {
                        let mut shared = shared.lock().unwrap();
                        shared.push((movable.clone(), value));
                        let index = (thread * 7 + round) % shared.len();
                        if round % 3 == 0 { shared.swap_remove(index) } else { shared[index].clone() }
                    };
                    let x = Tensor::from_vec(vec![1.0_f32; 32], &[1, 32]).unwrap();
                    for (movable, value) in [(movable, value), taken] {
                        let y: Tensor = movable.call((&x,)).unwrap().extract().unwrap();
                        assert_eq!(y.to_vec::<f32>().unwrap(), [32.0 * value as f32]);
                    }
                    if round % 10 == thread {
                        drop(package.load_pickle("model", "model.pkl").unwrap());
                    }
                }
            });
        }
    });
    drop(shared);
    drop(package);
    for _ in 0..2 {
        collect(pool);
    }
    assert_eq!(shared_memory(), before);
}

#[test]
fn a_dropped_package_is_unmapped() {
    let _alone = alone();
    let pool = pool();
    for name in ["mobilenet_v3_small", "resnet18"] {
        let path = exported().join(format!("{name}.pt"));
        let mapped = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.contains(path.to_str().unwrap())
        };
        let package = pool.load_package(&path).unwrap();
        let model = package.load_pickle("model", "model.pkl").unwrap();
        for interpreter in pool.interpreters() {
            model.to_object(&interpreter.session()).unwrap();
        }
        assert!(mapped());
        drop(package);
        assert!(mapped(), "the movable still needs it");
        drop(model);
        collect(pool);
        assert!(!mapped(), "{name} is still mapped");
    }
}

#[test]
fn read_only_weights_compute_and_refuse_to_be_written() {
    let _alone = alone();
    let pool = pool();
    let archive = Archive::open(exported().join("mobilenet_v3_small.pt")).unwrap();
    let package = pool.load_archive_with(archive, Weights::ReadOnly);
    let model = package.load_pickle("model", "model.pkl").unwrap();
    let x =
        Tensor::from_vec(floats(&exported().join("mobilenet_v3_small.input")), &[1, 3, 224, 224]);
    let x = x.unwrap();
    let expected = floats(&exported().join("mobilenet_v3_small.output"));
    let code = "def write(model):\n    import torch\n    with torch.no_grad():\n        model.classifier[0].bias.add_(1)\n\
                def pointer(model):\n    return model.classifier[0].bias.data_ptr()\n\
                def copy(model):\n    return model.classifier[0].bias.detach().clone().add_(1).shape[0]\n";
    for interpreter in pool.interpreters() {
        let session = interpreter.session();
        let functions = session.run(code, "write.py").unwrap();
        let call = |name: &str| {
            let object = model.to_object(&session).unwrap();
            functions.getattr(name).unwrap().call((object,))
        };
        for refused in ["write", "pointer"] {
            let error = call(refused).unwrap_err();
            assert!(error.to_string().starts_with("RuntimeError"), "{refused}: {error}");
        }
        assert!(call("copy").unwrap().extract::<i64>().unwrap() > 0);
        assert_eq!(infer(&session, &model, &x), expected);
    }
    // Moved again as an object, it is copied. `copied` says so.
    let session = pool.acquire_on(0).unwrap();
    let moved = session.create_movable(&model.to_object(&session).unwrap()).unwrap();
    assert!(moved.copied().iter().any(|line| line.contains("read-only")), "{:?}", moved.copied());
    assert_eq!(infer(&pool.acquire_on(1).unwrap(), &moved, &x), expected);
}

/// Stock torch.package's exporter writes objects of one package into another, and stock torch.package
/// loads that one.
#[test]
fn a_loaded_object_is_exported_again_and_loads_in_stock() {
    let _alone = alone();
    let pool = pool();
    let package = pool.load_package(exported().join("mobilenet_v3_small.pt")).unwrap();
    let session = package.acquire_session().unwrap();
    let file = exported().join("exported_again.pt");
    let code = "
import warnings
import torch.package
def export(importer, path):
    warnings.filterwarnings('ignore', message='TypedStorage is deprecated')
    model = importer.load_pickle('model', 'model.pkl')
    order = importer.torch_importer, torch.package.sys_importer
    with torch.package.PackageExporter(path, importer=order) as exporter:
        exporter.extern(['torch.**', 'numpy.**', 'PIL.**', 'sys', 'io'])
        exporter.intern('torchvision.**')
        exporter.save_pickle('model', 'model.pkl', model)
";
    let export = session.run(code, "export.py").unwrap().getattr("export").unwrap();
    export.call((session.importer().unwrap(), file.to_str().unwrap())).unwrap();
    let program = "
import sys, torch, warnings
warnings.simplefilter('ignore')
torch.set_num_threads(1)
model = torch.package.PackageImporter(sys.argv[1]).load_pickle('model', 'model.pkl')
x = torch.frombuffer(bytearray(open(sys.argv[2], 'rb').read()), dtype=torch.float32).reshape(1, 3, 224, 224)
y = torch.frombuffer(bytearray(open(sys.argv[3], 'rb').read()), dtype=torch.float32)
with torch.no_grad():
    assert torch.equal(model(x).reshape(-1), y)
";
    let status = std::process::Command::new(venv().join("bin/python"))
        .args(["-c", &format!("import torch.package{program}")])
        .arg(&file)
        .arg(exported().join("mobilenet_v3_small.input"))
        .arg(exported().join("mobilenet_v3_small.output"))
        .status()
        .unwrap();
    assert!(status.success(), "stock torch.package does not load it");
    let again = pool.load_package(&file).unwrap();
    let model = again.load_pickle("model", "model.pkl").unwrap();
    assert!(model.to_object(&pool.acquire().unwrap()).is_ok());
}
