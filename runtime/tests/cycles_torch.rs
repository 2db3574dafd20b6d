//! Interpreters with numpy and with torch that are started and ended again and again, while another one serves.

mod common;
mod cycling;

use common::venv;
use cycling::{Each, assert_cycles, cycles, first, patience, while_another_serves};
use hydrozoa::{Builder, Pool, TorchPolicy};
use hydrozoa_testkit::alone::alone;
use std::time::Duration;

const NUMPY: &str = "
import numpy
matrix = numpy.random.default_rng(1).random((200, 200))
answer = float((matrix @ numpy.linalg.inv(matrix)).trace())
";

const TORCH: &str = "
import torch
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(4))
model(torch.ones(2, 3, 16, 16)).sum().backward()
answer = float(sum(parameter.grad.sum() for parameter in model.parameters()))
";

/// The stand-in for a missing device counts as eight, and a backward pass makes a thread for each.
const SHARED: &str = "
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    torch.empty(2, device='cuda')
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(4))
model(torch.ones(2, 3, 16, 16)).sum().backward()
scripted = torch.jit.script(model)
answer = float(sum(parameter.grad.sum() for parameter in model.parameters()) + scripted(torch.ones(2, 3, 16, 16)).sum())
";

fn cycle(builder: &Builder, work: &str) -> f64 {
    let pool = builder.clone().build().unwrap();
    let session = pool.acquire().unwrap();
    session.run(work, "work.py").unwrap().getattr("answer").unwrap().extract().unwrap()
}

/// Runs cycles, whose answers are all the same, and asserts what each of them leaves.
fn assert_equal_cycles(policy: TorchPolicy, work: &str, few: (u64, u64), each: Each) {
    let builder = Pool::builder().venv(venv()).torch(policy);
    while_another_serves(&builder, || {
        let answer = cycle(&builder, work);
        assert_cycles(first(few.0), cycles(few.1), each, || {
            assert_eq!(cycle(&builder, work).to_bits(), answer.to_bits());
        });
    });
}

#[test]
fn what_an_interpreter_with_numpy_had_is_given_back() {
    let each = Each { bytes: 50 << 10, mappings: 0 };
    alone(patience(), || assert_equal_cycles(TorchPolicy::Isolated, NUMPY, (4, 12), each));
}

#[test]
fn what_an_interpreter_with_its_own_torch_had_is_given_back() {
    let each = Each { bytes: 200 << 10, mappings: 0 };
    alone(patience(), || assert_equal_cycles(TorchPolicy::Isolated, TORCH, (2, 3), each));
}

#[test]
fn what_an_interpreter_that_shares_torch_had_is_given_back() {
    let each = Each { bytes: 200 << 10, mappings: 0 };
    alone(patience(), || assert_equal_cycles(TorchPolicy::Shared, TORCH, (4, 4), each));
}

#[test]
fn interpreters_that_share_torch_go_on_when_the_first_of_them_has_ended() {
    alone(patience(), || {
        let builder = Pool::builder().venv(venv()).interpreters(1).torch(TorchPolicy::Shared);
        let [first, second] = [(); 2].map(|()| builder.clone().build().unwrap());
        let answer = |pool: &Pool| -> f64 {
            let session = pool.acquire().unwrap();
            session.run(SHARED, "work.py").unwrap().getattr("answer").unwrap().extract().unwrap()
        };
        let before = [answer(&first), answer(&second)];
        first.close(Duration::from_secs(60)).unwrap();
        assert_eq!(answer(&second).to_bits(), before[0].to_bits());
        let third = builder.build().unwrap();
        second.close(Duration::from_secs(60)).unwrap();
        assert_eq!(answer(&third).to_bits(), before[1].to_bits());
        // The last one ends with the process.
        std::mem::forget(third);
    });
}
