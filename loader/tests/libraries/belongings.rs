//! A domain lists what its code owns: mappings, stacks, thread-local data.

use std::ffi::c_int;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use crate::replicas::{call, domains, open_in};
use hydrozoa_testkit::libraries::{Workshop, function};

/// Maps memory, runs a thread that shows where its stack is and waits, and defines thread-local data that does not begin
/// as zeros.
const SOURCE: &str = "
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <semaphore.h>
    #include <sys/mman.h>
    static sem_t runs, may_end; static pthread_t thread; static char *mapped, *on_stack;
    static __thread char data[64 << 10] = { 1 };
    static void *body(void *unused) { char here; on_stack = &here; data[1]++; sem_post(&runs); sem_wait(&may_end); return 0; }
    char *map(void) { return mapped = mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
    char *start(void) { sem_init(&runs, 0, 0); sem_init(&may_end, 0, 0);
        pthread_create(&thread, 0, body, 0); sem_wait(&runs); return on_stack; }
    int end(void) { sem_post(&may_end); return pthread_join(thread, 0) + munmap(mapped, 1 << 20); }
";

fn has(ranges: &[Range<usize>], address: usize) -> bool {
    ranges.iter().any(|range| range.contains(&address))
}

#[test]
fn mappings_stacks_and_thread_local_data_are_their_domain_s() {
    let shop = Workshop::new("owned");
    let path = shop.build("libowned.so", SOURCE, &["-pthread"]);
    let domains = domains(2);
    let libraries = open_in(&domains, &path);
    let (one, other) = (&domains[0], &domains[1]);
    let address = |name: &str| {
        // SAFETY: a function `char *name(void)` of the library above.
        let function: extern "C" fn() -> usize = unsafe { function(&libraries[0], name) };
        function()
    };
    let mapped = address("map");
    assert!(has(&one.mappings(), mapped) && has(&one.mappings(), mapped + (1 << 20) - 1));
    assert!(!has(&one.mappings(), mapped + (1 << 20)) && !has(&other.mappings(), mapped));
    assert!(one.stacks().is_empty() && one.thread_local_bytes() == 0);

    let on_stack = address("start");
    assert!(has(&one.stacks(), on_stack), "{:?}", one.stacks());
    assert_eq!((one.stacks().len(), other.stacks().len()), (1, 0));
    assert!((64 << 10..80 << 10).contains(&one.thread_local_bytes()));
    assert_eq!(other.thread_local_bytes(), 0);

    let ended: c_int = call(&libraries[0], "end");
    assert_eq!(ended, 0);
    assert!(!has(&one.mappings(), mapped));
    assert_eq!(one.thread_local_bytes(), 0);
    // The kernel's record of a thread ends a little later than the thread can be joined.
    while !one.stacks().is_empty() {
        thread::sleep(Duration::from_millis(1));
    }
}
