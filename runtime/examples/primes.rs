//! The same four threads of pure Python on one interpreter, then on four.
//!
//! ```sh
//! cargo run --release -p hydrozoa-examples --example primes
//! ```

use hydrozoa::Pool;
use std::time::Instant;

const CODE: &str = "
def primes(first, last):
    return sum(all(n % d for d in range(2, int(n ** 0.5) + 1)) for n in range(max(first, 2), last))
";

fn main() -> hydrozoa::Result<()> {
    for interpreters in [1, 4] {
        let pool = Pool::builder().interpreters(interpreters).build()?; // finds a Python
        let count = &|part: u32| -> hydrozoa::Result<u32> {
            let session = pool.acquire()?; // leases the least loaded interpreter
            let primes = session.run(CODE, "primes.py")?.getattr("primes")?;
            primes.call((part * 50_000, (part + 1) * 50_000))?.extract()
        };
        let start = Instant::now();
        let total = std::thread::scope(|scope| {
            let threads = [0, 1, 2, 3].map(|part| scope.spawn(move || count(part)));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<hydrozoa::Result<u32>>()
        })?;
        println!("{interpreters} interpreters: {total} primes in {:.2?}", start.elapsed());
    }
    Ok(())
}
