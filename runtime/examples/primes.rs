//! The same four threads of pure Python on one interpreter, then on four.
//!
//! ```sh
//! cargo run --release -p hydrozoa --example primes
//! ```

use hydrozoa::Pool;
use std::thread;
use std::time::Instant;

const CODE: &str = "
def primes(first, last):
    return sum(all(n % d for d in range(2, int(n ** 0.5) + 1)) for n in range(max(first, 2), last))
";

fn main() -> hydrozoa::Result<()> {
    let mut times = Vec::new();
    for interpreters in [1, 4] {
        let pool = Pool::builder().interpreters(interpreters).build()?; // finds a Python
        let count = |part: u32| -> hydrozoa::Result<u32> {
            let session = pool.acquire()?; // a lease on the least loaded interpreter
            let primes = session.run(CODE, "primes.py")?.getattr("primes")?;
            primes.call((part * 50_000, (part + 1) * 50_000))?.extract()
        };
        let (start, count) = (Instant::now(), &count);
        let total = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|part| scope.spawn(move || count(part))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<hydrozoa::Result<u32>>()
        })?;
        times.push(start.elapsed());
        println!("{interpreters} interpreters: {total} primes in {:.2?}", start.elapsed());
        assert_eq!(total, 17_984);
    }
    if times[1] > times[0].mul_f64(0.8) {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        println!("no faster. Processors: {processors}; other programs may be using them");
    }
    Ok(())
}
