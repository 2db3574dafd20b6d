//! The cost of a call from Rust into an interpreter, and of the same call from Python itself.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use hydrozoa::{Pool, Session};

fn session(pool: &Pool) -> Session {
    pool.acquire_on(0).expect("the pool has an interpreter")
}

fn calls(criterion: &mut Criterion) {
    let pool = Pool::builder().interpreters(1).build().expect("a Python with a shared library");
    let session = session(&pool);
    let mut group = criterion.benchmark_group("calls");
    let nothing = session.eval("lambda: None").expect("a function");
    group
        .bench_function("no arguments", |bencher| bencher.iter(|| nothing.call(()).expect("None")));
    group.bench_function("no arguments, the GIL held", |bencher| {
        session.with_gil(|| bencher.iter(|| nothing.call(()).expect("None")));
    });
    let add = session.eval("lambda a, b: a + b").expect("a function");
    group.bench_function("two numbers in, one out", |bencher| {
        bencher.iter(|| {
            let sum: f64 = add
                .call((black_box(1.5), black_box(2)))
                .and_then(|sum| sum.extract())
                .expect("a number");
            sum
        });
    });
    let text = "a string of forty characters, more or less".to_owned();
    let upper = session.eval("str.upper").expect("a function");
    group.bench_function("a string in, a string out", |bencher| {
        bencher.iter(|| -> String {
            upper.call((text.as_str(),)).and_then(|text| text.extract()).expect("a string")
        });
    });
    group.bench_function("a lease and its end", |bencher| {
        bencher.iter(|| pool.acquire().expect("a session"))
    });
    // For comparison, Python calls the same function. The time includes Python's own loop.
    let timed = session
        .run(
            "import time\ndef timed(function, count):\n start = time.perf_counter_ns()\n for _ in range(count): function()\n return time.perf_counter_ns() - start",
            "timed.py",
        )
        .and_then(|namespace| namespace.getattr("timed"))
        .expect("a function");
    group.bench_function("no arguments, by Python itself", |bencher| {
        bencher.iter_custom(|count| {
            let nanoseconds: u64 =
                timed.call((&nothing, count)).and_then(|time| time.extract()).expect("a time");
            Duration::from_nanos(nanoseconds)
        });
    });
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
