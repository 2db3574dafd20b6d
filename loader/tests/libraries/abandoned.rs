//! Domains whose code has crashed: none of it runs any more, and their places pass on.

use std::ffi::c_int;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use hydrozoa_loader::{Domain, Loader, OpenFlags};
use hydrozoa_testkit::alone::alone;
use hydrozoa_testkit::libraries::{Workshop, function, open};

const PATIENCE: Duration = Duration::from_secs(60);

fn abandon(domain: Domain) {
    let (say, hear) = mpsc::channel();
    // SAFETY: no code of the domain's libraries goes on, and nothing uses their data.
    unsafe { domain.abandon(move || say.send(()).unwrap()) };
    hear.recv_timeout(Duration::from_secs(5)).unwrap();
}

fn call(domain: &Domain, path: &std::path::Path, name: &str) -> c_int {
    let library = open(domain, path, OpenFlags::NOW).unwrap();
    // SAFETY: the tests declare the functions that they call so.
    let function: extern "C-unwind" fn() -> c_int = unsafe { function(&library, name) };
    function()
}

#[test]
fn neither_destructors_nor_exit_handlers_nor_ends_of_threads_call_its_code() {
    alone(PATIENCE, || {
        let shop = Workshop::new("abandoned");
        let path = shop.build(
            "libabandoned.so",
            "#include <pthread.h>
             #include <stdlib.h>
             static int n = 41;
             static void ends(void) { abort(); }
             static void ends_value(void *value) { abort(); }
             static __attribute__((destructor)) void destroys(void) { abort(); }
             int begins(void) {
                 pthread_key_t key;
                 atexit(ends);
                 at_quick_exit(ends);
                 pthread_atfork(ends, ends, ends);
                 pthread_key_create(&key, ends_value);
                 pthread_setspecific(key, &n);
                 return ++n;
             }",
            &[],
        );
        let loader = Loader::builder().build().unwrap();
        let domain = loader.domain("crashed").build().unwrap();
        let base = open(&domain, &path, OpenFlags::NOW).unwrap().base();
        let (crashed, again) = (domain.clone(), path.clone());
        let (say, hear) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let inside = thread::spawn(move || {
            begun.send(call(&crashed, &again, "begins")).unwrap();
            drop(crashed);
            hear.recv().unwrap();
        });
        assert_eq!(has_begun.recv().unwrap(), 42);
        domain.silence();
        // The thread ends with a value for the key.
        say.send(()).unwrap();
        inside.join().unwrap();
        abandon(domain);
        // SAFETY: the child does nothing.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(0);
            }
            let mut status = 1;
            libc::waitpid(child, &mut status, 0);
            assert_eq!(status, 0);
        }
        let next = loader.domain("next").build().unwrap();
        assert_eq!(open(&next, &path, OpenFlags::NOW).unwrap().base(), base);
        // The next one's own.
        next.silence();
        assert_eq!(call(&next, &path, "begins"), 42);
        abandon(next);
    });
}

#[test]
fn a_domain_whose_constructor_never_returns_can_be_abandoned() {
    alone(PATIENCE, || {
        let shop = Workshop::new("constructing");
        let path = shop.build(
            "libconstructing.so",
            "#include <unistd.h>
             static int n = 6;
             static __attribute__((constructor)) void waits(void) { if (getenv(\"WAITS\")) for (;;) pause(); }
             int answer(void) { return ++n; }",
            &["-include", "stdlib.h"],
        );
        let loader = Loader::builder().build().unwrap();
        let domain = loader.domain("crashed").environment([c"WAITS=1".into()]).build().unwrap();
        let (loads, again) = (domain.clone(), path.clone());
        // Its frames stay for ever, as good as discarded.
        thread::spawn(move || open(&loads, &again, OpenFlags::NOW));
        while domain.replicas().is_empty() {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(50));
        abandon(domain);
        let next = loader.domain("next").build().unwrap();
        assert_eq!(call(&next, &path, "answer"), 7);
    });
}
