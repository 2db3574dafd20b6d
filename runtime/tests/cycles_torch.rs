//! Interpreters with numpy and with torch that are started and ended again and again, while another one serves.

mod common;
mod cycling;

use common::venv;
use cycling::{Taken, cycles, patience, while_another_serves};
use hydrozoa::{Builder, Pool, TorchPolicy};
use hydrozoa_testkit::alone::alone;

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

fn cycle(builder: &Builder, work: &str) -> f64 {
    let pool = builder.clone().build().unwrap();
    let session = pool.acquire().unwrap();
    session.run(work, "work.py").unwrap().getattr("answer").unwrap().extract().unwrap()
}

/// Runs cycles, whose answers are all the same, and asserts what each of them leaves.
fn assert_cycles(work: &str, first: u64, count: u64, bytes: i64) {
    let builder = Pool::builder().venv(venv()).torch(TorchPolicy::Isolated);
    while_another_serves(&builder, || {
        let answer = cycle(&builder, work);
        (1..first).for_each(|_| assert_eq!(cycle(&builder, work), answer));
        let before = Taken::now();
        for _ in 0..count {
            assert_eq!(cycle(&builder, work).to_bits(), answer.to_bits());
        }
        Taken::now().assert_bounded(before, count, bytes);
    });
}

#[test]
fn what_an_interpreter_with_numpy_had_is_given_back() {
    alone(patience(), || assert_cycles(NUMPY, 4, cycles(12), 50 << 10));
}

#[test]
fn what_an_interpreter_with_its_own_torch_had_is_given_back_but_for_some_mib() {
    alone(patience(), || assert_cycles(TORCH, 2, cycles(3), 4 << 20));
}
