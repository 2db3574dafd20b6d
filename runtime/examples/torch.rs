//! One torch model in several interpreters: made in the first, called in all, with one copy of its weights.
//!
//! ```sh
//! cargo run --release -p hydrozoa-examples --example torch -- VENV
//! ```
//!
//! VENV is a virtual environment with torch: `pip install torch==2.11.0 numpy`, or what `cargo xtask setup` prints.

use hydrozoa::memory::Usage;
use hydrozoa::{Pool, Tensor};
use std::thread;

const CODE: &str = "
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(2048, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 8)).eval()
model.requires_grad_(False)
";

fn main() -> hydrozoa::Result<()> {
    let Some(venv) = std::env::args_os().nth(1) else {
        eprintln!("usage: torch VENV");
        std::process::exit(2);
    };
    let pool = Pool::builder().interpreters(3).venv(venv).build()?;
    let model = {
        let session = pool.acquire_on(0)?;
        let model = session.run(CODE, "model.py")?.getattr("model")?;
        pool.create_movable(&model)? // 32 MiB of weights, which no interpreter copies
    };
    let input = Tensor::from_vec(vec![0.5_f32; 2048], &[1, 2048])?;
    let call = |index: usize| -> hydrozoa::Result<Vec<f32>> {
        let session = pool.acquire_on(index)?;
        let output: Tensor = model.to_object(&session)?.call((&input,))?.extract()?;
        output.to_vec()
    };
    let first = call(0)?;
    for index in 1..pool.interpreters().len() {
        pool.acquire_on(index)?.import("torch")?;
        let before = Usage::of_process()?;
        assert_eq!(call(index)?, first); // to the last bit
        let grown = (Usage::of_process()? - before).private >> 10;
        println!("interpreter {index}: the same output; private memory grew by {grown} KiB");
    }
    // Each thread has an interpreter, and so a GIL, to itself.
    thread::scope(|scope| {
        let calls = (0..pool.interpreters().len()).map(|index| {
            scope.spawn({
                let call = &call;
                move || call(index)
            })
        });
        let calls: Vec<_> = calls.collect();
        calls.into_iter().try_for_each(|call| call.join().expect("no call panics").map(drop))
    })
}
