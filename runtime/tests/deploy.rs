//! The behaviours that torch::deploy's own tests check, under the same names
//! (multipy/runtime/test_deploy.cpp), on stock CPython and stock torch.

mod common;

use common::{alone, exported, venv};
use hydrozoa::{Error, Pool, Session, Tensor};
use std::sync::OnceLock;
use std::thread;

/// Starting interpreters with torch takes a second each: all tests share these three.
fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool::builder().venv(venv()).interpreters(3).build().unwrap())
}

fn model() -> hydrozoa::Package {
    pool().load_package(exported().join("mobilenet_v3_small.pt")).unwrap()
}

fn floats(name: &str) -> Vec<f32> {
    let bytes = std::fs::read(exported().join(name)).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

fn input() -> Tensor {
    Tensor::from_vec(floats("mobilenet_v3_small.input"), &[1, 3, 224, 224]).unwrap()
}

fn one_torch_thread(session: &Session) {
    session.import("torch").unwrap().call_method("set_num_threads", (1,)).unwrap();
}

fn assert_right(output: &Tensor) {
    assert_eq!(output.to_vec::<f32>().unwrap(), floats("mobilenet_v3_small.output"));
}

#[test]
fn init_twice() {
    let _alone = alone();
    for interpreters in [2, 1] {
        let again = Pool::builder().interpreters(interpreters).build().unwrap();
        assert_eq!(again.interpreters().len(), interpreters);
    }
}

#[test]
fn different_interps() {
    let _alone = alone();
    pool().register_module("check_none", "check = id(None)\n").unwrap();
    let of = |index: usize| -> u64 {
        let session = pool().acquire_on(index).unwrap();
        let module = session.import("check_none").unwrap();
        module.getattr("check").unwrap().extract().unwrap()
    };
    assert_ne!(of(0), of(1));
}

#[test]
fn simple_model() {
    let _alone = alone();
    let package = model();
    let model = package.load_pickle("model", "model.pkl").unwrap();
    for interpreter in pool().interpreters() {
        let session = interpreter.session();
        one_torch_thread(&session);
        let y = model.to_object(&session).unwrap().call((&input(),)).unwrap();
        assert_right(&y.extract().unwrap());
    }
}

#[test]
fn movable() {
    let _alone = alone();
    let movable = {
        let session = pool().acquire().unwrap();
        let module = session.import("torch.nn").unwrap().call_method("Module", ()).unwrap();
        session.create_movable(&module).unwrap()
    };
    let session = movable.acquire_session().unwrap();
    assert_eq!(movable.to_object(&session).unwrap().type_name(), "Module");
}

#[test]
fn multi_serial_simple_model() {
    let _alone = alone();
    let package = model();
    let model = package.load_pickle("model", "model.pkl").unwrap();
    pool().interpreters().iter().for_each(|interpreter| one_torch_thread(&interpreter.session()));
    for _ in 0..3 {
        assert_right(&model.call((&input(),)).unwrap().extract().unwrap());
    }
    let nothing: [(&str, i64); 0] = [];
    assert_right(&model.call_kwargs((&input(),), nothing).unwrap().extract().unwrap());
    assert_right(&model.call_kwargs((), [("x", &input())]).unwrap().extract().unwrap());
    let session = model.acquire_session().unwrap();
    let object = model.to_object(&session).unwrap();
    assert!(object.getattr("forward").is_ok());
    assert!(object.getattr("make_prediction").is_err());
}

#[test]
fn threaded_simple_model() {
    let _alone = alone();
    let package = model();
    let model = package.load_pickle("model", "model.pkl").unwrap();
    pool().interpreters().iter().for_each(|interpreter| one_torch_thread(&interpreter.session()));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_right(&model.call((&input(),)).unwrap().extract().unwrap());
                }
            });
        }
    });
}

#[test]
fn errors_replicating_obj() {
    let _alone = alone();
    let package = model();
    let model = package.load_pickle("model", "model.pkl").unwrap();
    let (first, second) = (pool().acquire_on(0).unwrap(), pool().acquire_on(1).unwrap());
    let object = model.to_object(&first).unwrap();
    let error = second.create_movable(&object).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("interpreter 0"), "{error}");
}

#[test]
fn throws_safely() {
    let _alone = alone();
    let package = model();
    assert!(package.load_pickle("some other", "garbage path").is_err());
    let model = package.load_pickle("model", "model.pkl").unwrap();
    let error = model.call(("unexpected input",)).unwrap_err();
    assert!(matches!(error, Error::Python { .. }), "{error}");
    // The model still works.
    let session = model.acquire_session().unwrap();
    one_torch_thread(&session);
    assert!(model.to_object(&session).unwrap().call((&input(),)).is_ok());
}

#[test]
fn acquire_multiple_sessions_in_the_same_package() {
    let _alone = alone();
    let package = model();
    let outer = package.acquire_session().unwrap();
    let inner = package.acquire_session().unwrap();
    for session in [&outer, &inner] {
        let text = session.importer().unwrap().call_method("load_text", ("model", "labels.txt"));
        assert_eq!(text.unwrap().extract::<String>().unwrap(), "one\ntwo\n");
    }
    let none = pool().acquire().unwrap();
    assert!(matches!(none.importer().unwrap_err(), Error::Configuration(_)));
}

#[test]
fn acquire_multiple_sessions_in_different_packages() {
    let _alone = alone();
    let (one, two) = (model(), pool().load_package(exported().join("resnet18.pt")).unwrap());
    let (outer, inner) = (one.acquire_session().unwrap(), two.acquire_session().unwrap());
    let id = |session: &Session| -> String {
        session.importer().unwrap().call_method("id", ()).unwrap().extract().unwrap()
    };
    assert_ne!(id(&outer), id(&inner));
    assert!(
        !outer
            .importer()
            .unwrap()
            .call_method("import_module", ("torchvision",))
            .unwrap()
            .is_none()
    );
}

#[test]
fn tensor_sharing_not_allowed() {
    let _alone = alone();
    let (first, second) = (pool().acquire_on(0).unwrap(), pool().acquire_on(1).unwrap());
    let tensor = first.import("torch").unwrap().call_method("empty", (2,)).unwrap();
    let torch = second.import("torch").unwrap();
    // An object stays where it is ...
    let error = torch.call_method("sigmoid", (&tensor,)).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    // ... and a tensor taken out of it is only the memory. That may go anywhere.
    let memory: Tensor = tensor.extract().unwrap();
    let taken = torch.call_method("from_dlpack", (&memory,)).unwrap();
    torch.call_method("sigmoid", (taken,)).unwrap();
}

/// 16 threads give one tensor of the host to their interpreters at once. torch::deploy lets one have
/// it and refuses the others. Here each gets an object of its own over the same memory.
#[test]
fn tagging_race() {
    let _alone = alone();
    for trial in 0..4 {
        let tensor = Tensor::from_vec(vec![trial as f32; 2], &[2]).unwrap();
        thread::scope(|scope| {
            for index in 0..16 {
                let tensor = &tensor;
                scope.spawn(move || {
                    let session = pool().acquire_on(index % 3).unwrap();
                    let list = session.object_from(tensor).unwrap().call_method("tolist", ());
                    let values: Vec<f32> = list.unwrap().extract().unwrap();
                    assert_eq!(values, [trial as f32; 2]);
                });
            }
        });
    }
}

/// A tensor that outlives the interpreter that made it.
#[test]
fn disarm_hook() {
    let _alone = alone();
    let tensor: Tensor = {
        let short_lived = Pool::builder().venv(venv()).interpreters(1).build().unwrap();
        let session = short_lived.acquire().unwrap();
        let torch = session.import("torch").unwrap();
        torch.call_method("full", (vec![2_i64], 7.0_f32)).unwrap().extract().unwrap()
    };
    assert_eq!(tensor.to_vec::<f32>().unwrap(), [7.0, 7.0]);
    let session = pool().acquire().unwrap();
    let total = session.object_from(&tensor).unwrap().call_method("sum", ()).unwrap();
    assert_eq!(total.call_method("item", ()).unwrap().extract::<f64>().unwrap(), 14.0);
}

#[test]
fn register_module() {
    let _alone = alone();
    let source =
        "def add1(x):\n    return x + 1\ndef fails():\n    raise ValueError('seen')  # here\n";
    pool().register_module("foomodule", source).unwrap();
    for interpreter in pool().interpreters() {
        let session = interpreter.session();
        let module = session.import("foomodule").unwrap();
        assert_eq!(module.call_method("add1", (2,)).unwrap().extract::<i64>().unwrap(), 3);
        let error = module.call_method("fails", ()).unwrap_err();
        assert!(error.traceback().unwrap().contains("# here"), "{error}");
    }
    pool().register_module("foomodule", "def add1(x): return x + 10\n").unwrap();
    let session = pool().acquire().unwrap();
    let module = session.import("foomodule").unwrap();
    assert_eq!(module.call_method("add1", (2,)).unwrap().extract::<i64>().unwrap(), 12);
}

/// A GraphModule of a packaged class moves by `__reduce_deploy__`.
#[test]
fn fx_module() {
    let _alone = alone();
    let package = model();
    let code = "def traced(importer):\n    import torch.fx\n    module = importer.import_module('torchvision.ops.misc')\n    \
                torch.manual_seed(0)\n    net = module.Conv2dNormActivation(1, 2).eval().requires_grad_(False)\n    \
                return torch.fx.symbolic_trace(net)\n";
    let on = |session: &Session, object: hydrozoa::Object<'_>| -> Vec<f32> {
        let x = Tensor::from_vec((0..16).map(|i| i as f32).collect(), &[1, 1, 4, 4]).unwrap();
        one_torch_thread(session);
        object.call((&x,)).unwrap().extract::<Tensor>().unwrap().to_vec().unwrap()
    };
    let session = pool().acquire_on(0).unwrap();
    let importer = package.importer(&session).unwrap();
    let traced = session.run(code, "fx.py").unwrap().getattr("traced").unwrap();
    let graph = traced.call((importer,)).unwrap();
    let movable = session.create_movable(&graph).unwrap();
    let expected = on(&session, graph);
    for index in [1, 2] {
        let session = pool().acquire_on(index).unwrap();
        assert_eq!(on(&session, movable.to_object(&session).unwrap()), expected);
    }
}

#[test]
fn tensor_serialization_sharing() {
    let _alone = alone();
    let (first, second) = (pool().acquire_on(0).unwrap(), pool().acquire_on(1).unwrap());
    let tensor = first.import("torch").unwrap().call_method("ones", (2, 2)).unwrap();
    let movable = first.create_movable(&tensor).unwrap();
    let there = movable.to_object(&second).unwrap();
    let pointer = |object: &hydrozoa::Object<'_>| -> u64 {
        object.call_method("data_ptr", ()).unwrap().extract().unwrap()
    };
    assert_eq!(pointer(&tensor), pointer(&there));
    there.call_method("fill_", (5.0,)).unwrap();
    let total = tensor.call_method("sum", ()).unwrap().call_method("item", ()).unwrap();
    assert_eq!(total.extract::<f64>().unwrap(), 20.0);
}

#[test]
fn autograd() {
    let _alone = alone();
    let source = "import torch\n\
                  x = torch.ones(5)\ny = torch.zeros(3)\n\
                  w = torch.arange(15.0).reshape(5, 3).requires_grad_()\n\
                  b = torch.zeros(3, requires_grad=True)\n\
                  z = torch.matmul(x, w) + b\n\
                  loss = torch.nn.functional.binary_cross_entropy_with_logits(z, y)\n\
                  loss.backward()\nresult = w.grad\n";
    pool().register_module("autograd_test", source).unwrap();
    let gradients: Vec<Vec<f32>> = thread::scope(|scope| {
        let running: Vec<_> = (0..3)
            .map(|index| {
                scope.spawn(move || {
                    let session = pool().acquire_on(index).unwrap();
                    let result =
                        session.import("autograd_test").unwrap().getattr("result").unwrap();
                    result.extract::<Tensor>().unwrap().to_vec().unwrap()
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(gradients[0].iter().any(|value| *value != 0.0));
    assert!(gradients.iter().all(|gradient| *gradient == gradients[0]));
}

/// The installed distribution is the stock one, by importlib.metadata.
#[test]
fn importlib_metadata() {
    let _alone = alone();
    pool()
        .register_module(
            "importlib_test",
            "from importlib.metadata import version\nimport torch\nresult = version('torch')\nown = torch.__version__\n",
        )
        .unwrap();
    let session = pool().acquire().unwrap();
    let module = session.import("importlib_test").unwrap();
    let text = |name: &str| -> String { module.getattr(name).unwrap().extract().unwrap() };
    assert_eq!(text("result").split('+').next(), text("own").split('+').next());
}

#[test]
fn uses_distributed() {
    let _alone = alone();
    let session = pool().acquire().unwrap();
    let code = "import torch.distributed as d\navailable = d.is_available()\n";
    let available = session.run(code, "distributed.py").unwrap().getattr("available").unwrap();
    assert!(available.truth().unwrap());
}

#[test]
fn test_numpy() {
    let _alone = alone();
    let session = pool().acquire().unwrap();
    let numpy = session.import("numpy").unwrap();
    let random = numpy.getattr("random").unwrap();
    let left = random.call_method("rand", (3, 5)).unwrap();
    let right = random.call_method("rand", (5, 8)).unwrap();
    let product = numpy.call_method("matmul", (&left, &right)).unwrap();
    let shape: (i64, i64) = product.getattr("shape").unwrap().extract().unwrap();
    assert_eq!(shape, (3, 8));
}
