//! Threads that C++ code creates, by `std::thread` and not by `pthread_create`.

use std::ffi::c_int;
use std::thread;
use std::time::{Duration, Instant};

use hydrozoa_loader::{Loader, OpenFlags};
use hydrozoa_testkit::libraries::{Workshop, function, open};

const THREADS: &str = "
    #include <atomic>
    #include <thread>
    static std::atomic<int> began{0}, may_end{0};
    static std::thread waiting;
    extern \"C\" int start(int) {
        waiting = std::thread([] { began = 1; while (!may_end) std::this_thread::yield(); });
        while (!began) std::this_thread::yield();
        return 0;
    }
    extern \"C\" int finish(int) { may_end = 1; waiting.join(); return 0; }";

#[test]
fn a_thread_of_cxx_belongs_to_the_domain_whose_code_it_runs() {
    let shop = Workshop::new("cxx_threads");
    let library = shop.build("libthreads++.so", THREADS, &[]);
    let loader = Loader::builder().build().unwrap();
    let [one, other] = ["one", "other"].map(|name| loader.domain(name).build().unwrap());
    let [ours, theirs] =
        [&one, &other].map(|domain| open(domain, &library, OpenFlags::NOW).unwrap());
    // SAFETY: declared as `int (int)`.
    let [start, finish]: [extern "C" fn(c_int) -> c_int; 2] =
        unsafe { [function(&ours, "start"), function(&ours, "finish")] };
    assert!(!one.has_threads());
    start(0);
    assert!(one.has_threads(), "it has a thread that waits");
    assert!(!other.has_threads());
    assert_eq!(one.stacks().len(), 1);
    finish(0);
    // The kernel counts a thread for a moment after it was joined.
    let begin = Instant::now();
    while one.has_threads() && begin.elapsed() < Duration::from_secs(60) {
        thread::yield_now();
    }
    assert!(!one.has_threads());
    drop((ours, theirs));
}
