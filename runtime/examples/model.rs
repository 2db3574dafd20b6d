//! The README's package, called from four threads on four interpreters.
//!
//! ```sh
//! cargo run --release -p hydrozoa-examples --example model
//! ```
//!
//! The README makes `mobilenet_v3.pt` and `venv`, which it takes from the current folder.

use hydrozoa::{Pool, Tensor};

fn main() -> hydrozoa::Result<()> {
    let pool = Pool::builder().interpreters(4).venv("venv").build()?; // the environment that has torch
    let package = pool.load_package("mobilenet_v3.pt")?;
    let model = package.load_pickle("model", "model.pkl")?; // moves to each interpreter at its first use
    let image = Tensor::from_vec(vec![0.5f32; 3 * 224 * 224], &[1, 3, 224, 224])?;
    let call = || -> hydrozoa::Result<()> {
        let scores: Tensor = model.call((&image,))?.extract()?; // no copy in, no copy out
        println!("{:?}", &scores.to_vec::<f32>()?[..3]);
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(call));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    })
}
