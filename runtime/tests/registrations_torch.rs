//! Operators of libtorch under policy `shared`, read by one interpreter while another one registers kernels for them.

mod common;

use std::sync::Barrier;

use common::venv;
use hydrozoa::{Pool, TorchPolicy};

/// Kernels for keys of an operator make its table of kernels grow. `read` looks at the table meanwhile.
const FUNCTIONS: &str = "
import torch
KEYS = ['XLA', 'MPS', 'IPU', 'HPU', 'VE', 'Lazy', 'PrivateUse1', 'PrivateUse2', 'PrivateUse3', 'FPGA', 'Vulkan', 'Metal']
OPERATORS = [name for name in sorted(torch._C._dispatch_get_all_op_names()) if name.startswith('aten::')]
ALL = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
for key in ['CUDA', 'Meta', 'SparseCPU']:
    ALL = ALL | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

def register(start, count):
    library = torch.library.Library('aten', 'IMPL')
    for name in OPERATORS[start:start + count]:
        for key in KEYS:
            library.impl(name, lambda *arguments: None, key, allow_override=True)
    library._destroy()

def read(start, count):
    has, has_any = torch._C._dispatch_has_kernel_for_dispatch_key, torch._C._dispatch_has_kernel_for_any_dispatch_key
    dump = torch._C._dispatch_dump
    names = OPERATORS[start:start + count]
    before = [(has(name, 'CPU'), has_any(name, ALL)) for name in names]
    for _ in range(300):
        for name, expected in zip(names, before):
            assert (has(name, 'CPU'), has_any(name, ALL)) == expected, name
            assert not has(name, 'XLA'), name
    for name in names:
        assert name in dump(name)
    assert callable(torch.library.get_kernel('aten::mul.Tensor', 'CPU').call_boxed)
    assert all(name in OPERATORS for name in torch._C._dispatch_get_registrations_for_dispatch_key('CPU')
               if name.startswith('aten::'))
";

/// Operators of one round, and rounds.
const OPERATORS: i64 = 4;
const ROUNDS: i64 = 60;

#[test]
fn an_operator_is_read_while_another_interpreter_registers_for_it() {
    let pool = Pool::builder().interpreters(2).venv(venv()).torch(TorchPolicy::Shared);
    let pool = pool.build().unwrap();
    pool.register_module("registering", FUNCTIONS).unwrap();
    for index in 0..2 {
        pool.acquire_on(index).unwrap().import("registering").unwrap();
    }
    let barrier = Barrier::new(2);
    let run = |index: usize, function: &str| {
        let mut errors = Vec::new();
        for round in 0..ROUNDS {
            let session = pool.acquire_on(index).unwrap();
            let module = session.import("registering").unwrap();
            // A thread that fails goes on: the other one waits for it here.
            barrier.wait();
            let called = module.call_method(function, (round * OPERATORS, OPERATORS));
            errors.extend(called.err().map(|error| format!("round {round}: {error}")));
        }
        assert!(errors.is_empty(), "{function}: {errors:?}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| run(0, "register"));
        scope.spawn(|| run(1, "read"));
    });
}
