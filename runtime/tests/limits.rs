//! Interpreters that the kernel has no room for: each is an error, and the others still work.

mod pythons;

use hydrozoa::{Builder, Error, Pool};
use hydrozoa_testkit::process::in_child;
use hydrozoa_testkit::refusal::{Point, count, points, refusing, watch};

/// Seconds that one attempt may take on a busy machine.
const ATTEMPT: u32 = 120;

fn newest() -> Builder {
    pythons::builders(1).last().unwrap()
}

fn works(pool: &Pool) {
    let session = pool.acquire().unwrap();
    let sum = session.eval("sum(__import__('array').array('i', range(100_000)))").unwrap();
    assert_eq!(sum.extract::<i64>().unwrap(), 4_999_950_000);
}

/// How many mappings of libpython and the payload there are, without the views of the files.
fn replicas() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let theirs = |line: &&str| line.contains("libpython") || line.contains("hydrozoa-payload");
    maps.lines().filter(theirs).filter(|line| !line.contains(" r--s ")).count()
}

#[test]
fn an_interpreter_that_the_kernel_refuses_is_an_error_and_others_go_on() {
    let counts = in_child(ATTEMPT, || {
        let first = newest().build().unwrap();
        watch();
        let counts = count(|| works(&newest().build().unwrap()));
        works(&first);
        counts.iter().map(|count| format!("{count} ")).collect()
    });
    let counts: Vec<usize> =
        counts.unwrap().split_whitespace().map(|count| count.parse().unwrap()).collect();
    let of = |call: &'static str| points(&counts).into_iter().filter(move |point| point.is(call));
    // Every request for memory, alone, and some for files. Not every file that Python tries is needed.
    let tried: Vec<Point> = of("mmap").step_by(2).chain(of("openat").step_by(9)).collect();
    let mut failures = Vec::new();
    let mut errors = 0;
    for &point in &tried {
        let outcome = in_child(ATTEMPT, || {
            let first = newest().build().unwrap();
            watch();
            let before = replicas();
            let (result, _) = refusing(point, || newest().build());
            works(&first);
            let said = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
            if let Err(Error::Load(_)) = result {
                assert_eq!(replicas(), before, "{said}, and something stays");
            }
            let again = newest().build();
            works(&again.unwrap_or_else(|again| panic!("{said}, then {again}")));
            works(&first);
            said
        });
        match outcome {
            Ok(said) => errors += usize::from(!said.is_empty()),
            Err(failure) => failures.push(format!("{point}: {failure}")),
        }
    }
    println!("{} refusals, {errors} errors", tried.len());
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), tried.len(), failures.join("\n"));
    assert!(errors >= 10, "{errors}");
}
