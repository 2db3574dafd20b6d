//! Interpreters with numpy and with torch that are started and ended again and again, while another one serves.

mod common;
mod cycling;

use common::venv;
use cycling::{Each, assert_cycles, cycles, first, patience, while_another_serves};
use hydrozoa::{Builder, Pool};
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
fn assert_equal_cycles(work: &str, few: (u64, u64), each: Each) {
    let builder = Pool::builder().venv(venv());
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
    alone(patience(), || assert_equal_cycles(NUMPY, (4, 12), each));
}

#[test]
fn what_an_interpreter_with_torch_had_is_given_back() {
    let each = Each { bytes: 200 << 10, mappings: 0 };
    alone(patience(), || assert_equal_cycles(TORCH, (2, 3), each));
}
