//! Domains that end: they release resources, leave places to the next domain, and cancel calls.

use std::ffi::c_int;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use hydrozoa_loader::{Domain, Library, Loader, OpenFlags};
use hydrozoa_testkit::alone::alone;
use hydrozoa_testkit::libraries::{Workshop, function, mappings, open};

use crate::replicas::call;

const PATIENCE: Duration = Duration::from_secs(60);

fn domain(loader: &Loader) -> Domain {
    loader.domain("short").build().unwrap()
}

fn loader() -> Loader {
    Loader::builder().build().unwrap()
}

fn retire(domain: Domain) {
    // SAFETY: no code of the domain's library runs, except in threads that it has created, and nothing uses its data.
    unsafe { domain.retire(|| ()) };
}

fn opened(domain: &Domain, path: &Path) -> Library {
    open(domain, path, OpenFlags::NOW).unwrap()
}

fn all_mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// A function of a library on another thread. The test that runs there keeps the library loaded.
fn function_of(library: &Library, name: &str) -> extern "C-unwind" fn() -> c_int {
    // SAFETY: the tests declare the functions that they call so.
    unsafe { function(library, name) }
}

/// A thread that runs the functions it is given, until this is dropped.
struct Worker {
    send: mpsc::Sender<Box<dyn FnOnce() -> c_int + Send>>,
    receive: mpsc::Receiver<c_int>,
    thread: thread::JoinHandle<()>,
}

impl Worker {
    fn new() -> Worker {
        let (send, work) = mpsc::channel::<Box<dyn FnOnce() -> c_int + Send>>();
        let (answer, receive) = mpsc::channel();
        let thread = thread::spawn(move || {
            for one in work {
                answer.send(one()).unwrap();
            }
        });
        Worker { send, receive, thread }
    }

    fn call(&self, function: extern "C-unwind" fn() -> c_int) -> c_int {
        self.send.send(Box::new(move || function())).unwrap();
        self.receive.recv().unwrap()
    }

    fn end(self) {
        drop(self.send);
        self.thread.join().unwrap();
    }
}

#[test]
fn the_next_domain_gets_the_addresses_with_fresh_data_and_no_mapping_more() {
    alone(PATIENCE, || {
        let shop = Workshop::new("recycled");
        // Relocated data that is copied and that is not, read-only after relocation, bss.
        let path = shop.build(
            "librecycled.so",
            "static int zero; int one = 1; int *pointer = &one; static int big[65536];
             static int *const table[] = { &one, &zero };
             int *many[20000] = { &one };
             int step(void) { zero++; (*pointer) += 10; many[19999] = &zero; big[65535]++;
                 return zero * 1000 + one + (big[65535] - zero) + (*table[0] - one); }
             int fresh(void) { return many[0] == &one && !many[19999] && pointer == &one && *table[1] == 0; }",
            &["-Wl,-z,relro,-z,now"],
        );
        let loader = loader();
        let (mut base, mut count) = (0, 0);
        for round in 0..20 {
            let domain = domain(&loader);
            let library = opened(&domain, &path);
            assert_eq!(call(&library, "fresh"), 1, "round {round}");
            assert_eq!(call(&library, "step"), 1011, "round {round}");
            assert_eq!(call(&library, "step"), 2021, "round {round}");
            if round == 1 {
                (base, count) = (library.base(), all_mappings());
            } else if round > 1 {
                assert_eq!(library.base(), base, "round {round}");
                assert!(all_mappings() <= count + 2, "round {round}");
            }
            drop(library);
            retire(domain);
        }
        assert!(mappings(&path).iter().any(|line| line.contains("r-xp")), "the text stays mapped");
    });
}

#[test]
fn domains_that_live_at_once_never_share_a_place() {
    alone(PATIENCE, || {
        let shop = Workshop::new("apart");
        let source = "static int n; int step(void) { return ++n; }";
        let path = shop.build("libapart.so", source, &[]);
        let loader = loader();
        let old = domain(&loader);
        let first = opened(&old, &path).base();
        let other = domain(&loader);
        let library = opened(&other, &path);
        assert_ne!(library.base(), first);
        assert_eq!(call(&library, "step"), 1);
        retire(old);
        let (next, further) = (domain(&loader), domain(&loader));
        let again = opened(&next, &path);
        assert_eq!(again.base(), first);
        let new = opened(&further, &path);
        assert!(![first, library.base()].contains(&new.base()));
        for one in [&again, &new] {
            assert_eq!(call(one, "step"), 1);
        }
        assert_eq!(call(&library, "step"), 2);
    });
}

#[test]
fn a_place_that_somebody_has_a_handle_to_is_not_used_again() {
    alone(PATIENCE, || {
        let shop = Workshop::new("held");
        let path = shop.build("libheld.so", "int one(void) { return 1; }", &[]);
        let loader = loader();
        let old = domain(&loader);
        let library = opened(&old, &path);
        retire(old);
        let next = domain(&loader);
        let new = opened(&next, &path);
        assert_ne!(new.base(), library.base());
        assert_eq!(call(&new, "one"), 1);
    });
}

#[test]
fn thread_local_data_of_a_living_thread_begins_anew() {
    alone(PATIENCE, || {
        let shop = Workshop::new("renewed");
        // Blocks of each kind: with an image, small and zero, large, and at one offset in all threads.
        let initialised = shop.build(
            "libinitialised.so",
            "static __thread int n = 7; static __thread int zero[100]; int step(void) { return n++ + zero[99]++; }",
            &[],
        );
        let small =
            shop.build("libsmall.so", "static __thread int n; int step(void) { return n++; }", &[]);
        let fixed = shop.build(
            "libfixed.so",
            "static __thread int n __attribute__((tls_model(\"initial-exec\"))) = 5;
             static __thread int zero __attribute__((tls_model(\"initial-exec\")));
             int step(void) { return n++ + zero++; }",
            &[],
        );
        let loader = loader();
        let worker = Worker::new();
        for round in 0..4 {
            let domain = domain(&loader);
            for (path, first, second) in [(&initialised, 7, 9), (&small, 0, 1), (&fixed, 5, 7)] {
                let library = opened(&domain, path);
                let step = function_of(&library, "step");
                for _ in 0..2 {
                    // On the first thread of both only once.
                    if round < 2 {
                        break;
                    }
                    assert_eq!(thread::spawn(move || step()).join().unwrap(), first);
                }
                assert_eq!(
                    (worker.call(step), worker.call(step)),
                    (first, second),
                    "round {round}"
                );
                assert_eq!((step(), step()), (first, second), "round {round}");
            }
            retire(domain);
        }
        worker.end();
    });
}

#[test]
fn no_thread_is_interrupted_when_a_place_is_used_again() {
    alone(PATIENCE, || {
        let shop = Workshop::new("undisturbed");
        let path = shop.build(
            "libundisturbed.so",
            "static __thread int n __attribute__((tls_model(\"initial-exec\")));
             int step(void) { return n++; }",
            &[],
        );
        let loader = loader();
        let first = domain(&loader);
        assert_eq!(call(&opened(&first, &path), "step"), 0);
        retire(first);
        let (ready, is_ready) = mpsc::channel();
        let sleeper = thread::spawn(move || {
            ready.send(()).unwrap();
            let mut left = libc::timespec { tv_sec: 0, tv_nsec: 300_000_000 };
            // SAFETY: both places are valid.
            unsafe { libc::nanosleep(&left.clone(), &mut left) }
        });
        is_ready.recv().unwrap();
        thread::sleep(Duration::from_millis(50));
        let next = domain(&loader);
        assert_eq!(call(&opened(&next, &path), "step"), 0);
        assert_eq!(sleeper.join().unwrap(), 0, "nanosleep was interrupted");
    });
}

#[test]
fn exit_handlers_and_destructors_run_at_the_end_and_what_threads_have_is_left_alone() {
    alone(PATIENCE, || {
        let shop = Workshop::new("called");
        let flag = shop.path("flag");
        let path = shop.build(
            "libcalled++.so",
            &format!(
                "#include <cstdio>\n#include <cstdlib>\n#include <pthread.h>
                 static void note(const char *text) {{ FILE *f = fopen(\"{}\", \"a\"); fputs(text, f); fclose(f); }}
                 struct Object {{ int value = 7; ~Object() {{ note(\"thread's object \"); }} }};
                 static thread_local Object object;
                 static pthread_key_t key;
                 static void of_key(void *) {{ note(\"key \"); }}
                 static void at_exit() {{ note(\"atexit \"); }}
                 static void in_child() {{ note(\"child \"); }}
                 __attribute__((constructor)) static void begin() {{
                     atexit(at_exit); pthread_key_create(&key, of_key); pthread_atfork(0, 0, in_child); }}
                 __attribute__((destructor)) static void end() {{ note(\"destructor \"); }}
                 extern \"C\" int touch() {{ pthread_setspecific(key, &key); return object.value; }}
                 extern \"C\" int number() {{ return key; }}",
                flag.display()
            ),
            &["-pthread"],
        );
        let loader = loader();
        let worker = Worker::new();
        let mut numbers = Vec::new();
        for _ in 0..3 {
            let domain = domain(&loader);
            let library = opened(&domain, &path);
            assert_eq!(worker.call(function_of(&library, "touch")), 7);
            numbers.push(call(&library, "number"));
            drop(library);
            retire(domain);
        }
        assert!(numbers.iter().all(|number| *number == numbers[0]), "keys: {numbers:?}");
        // SAFETY: the child leaves at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: waits for the child.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        worker.end();
        assert_eq!(std::fs::read_to_string(&flag).unwrap(), "destructor atexit ".repeat(3));
    });
}

#[test]
fn a_signal_that_its_code_handles_gets_its_default_action_and_others_keep_theirs() {
    alone(PATIENCE, || {
        let shop = Workshop::new("handler");
        let path = shop.build(
            "libhandler.so",
            "#include <signal.h>
             static int count; static void handler(int number) { count++; }
             int install(void) { signal(SIGUSR2, handler); raise(SIGUSR2); return count; }",
            &[],
        );
        extern "C" fn own(_: c_int) {}
        let own = own as extern "C" fn(c_int) as usize;
        let action = |number| {
            // SAFETY: zero is a value of every field, and the place is valid.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(number, std::ptr::null(), &mut action);
                action.sa_sigaction
            }
        };
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(libc::SIGUSR1, own) };
        let domain = domain(&loader());
        let library = opened(&domain, &path);
        assert_eq!(call(&library, "install"), 1);
        drop(library);
        assert_ne!(action(libc::SIGUSR2), libc::SIG_DFL);
        retire(domain);
        assert_eq!((action(libc::SIGUSR1), action(libc::SIGUSR2)), (own, libc::SIG_DFL));
    });
}

#[test]
fn what_its_code_has_mapped_is_unmapped() {
    alone(PATIENCE, || {
        let shop = Workshop::new("mapped");
        let path = shop.build(
            "libmapped.so",
            "#define _GNU_SOURCE\n#include <sys/mman.h>\n#include <string.h>
             static char *get(unsigned long size) { return mmap(0, size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
             int take(void) {
                 char *kept = get(64 << 20), *partly = get(64 << 20), *moved = get(1 << 20);
                 memset(kept, 1, 64 << 20);
                 munmap(partly + (16 << 20), 32 << 20);
                 moved = mremap(moved, 1 << 20, 64 << 20, MREMAP_MAYMOVE);
                 if (munmap(moved + 1, 5) == 0) return 0;
                 memset(moved, 1, 64 << 20);
                 return moved != MAP_FAILED; }
             int give(void) { char *all = get(1 << 20); return munmap(all, 1 << 20) == 0; }",
            &[],
        );
        let loader = loader();
        let size = || {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: Vec<usize> = text.split(' ').flat_map(str::parse).take(2).collect();
            (pages[0] * 4096, pages[1] * 4096)
        };
        let mut after = Vec::new();
        for _ in 0..4 {
            let domain = domain(&loader);
            let library = opened(&domain, &path);
            assert_eq!(call(&library, "take"), 1);
            assert_eq!(call(&library, "give"), 1);
            drop(library);
            retire(domain);
            after.push(size());
        }
        let (first, last) = (after[0], after[3]);
        assert!(last.0 < first.0 + (8 << 20), "address space: {after:?}");
        assert!(last.1 < first.1 + (8 << 20), "memory: {after:?}");
    });
}

#[test]
fn a_domain_whose_thread_runs_ends_after_it() {
    alone(PATIENCE, || {
        let shop = Workshop::new("threads");
        let (flag, stop) = (shop.path("flag"), shop.path("stop"));
        let path = shop.build(
            "libthreads.so",
            &format!(
                "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>
                 static int data = 42;
                 static void *run(void *unused) {{ while (access(\"{1}\", F_OK)) usleep(1000);
                     if (data == 42) {{ FILE *f = fopen(\"{0}\", \"a\"); fputs(\"thread \", f); fclose(f); }}
                     return 0; }}
                 int start(void) {{ pthread_t thread; pthread_create(&thread, 0, run, 0); pthread_detach(thread); return 1; }}
                 __attribute__((destructor)) static void end(void) {{
                     FILE *f = fopen(\"{0}\", \"a\"); if (f) fputs(\"destructor \", f), fclose(f); data = 0; }}",
                flag.display(),
                stop.display()
            ),
            &["-pthread"],
        );
        let loader = loader();
        let old = domain(&loader);
        let library = opened(&old, &path);
        let base = library.base();
        assert_eq!(call(&library, "start"), 1);
        drop(library);
        retire(old);
        assert!(!flag.exists(), "it ended under its thread");
        let other = domain(&loader);
        assert_ne!(opened(&other, &path).base(), base);
        std::fs::write(&stop, "").unwrap();
        // The thread ends by itself.
        let mut last = None;
        while last.is_none() {
            thread::sleep(Duration::from_millis(5));
            let next = domain(&loader);
            let library = opened(&next, &path);
            last = (library.base() == base).then_some(next);
        }
        assert_eq!(std::fs::read_to_string(&flag).unwrap(), "thread destructor ");
    });
}

#[test]
fn an_exit_waits_for_the_end_of_a_domain() {
    alone(PATIENCE, || {
        let shop = Workshop::new("exit-waits");
        let path = shop.build(
            "libslow.so",
            "#include <stdlib.h>
             #include <unistd.h>
             static int begun[2], ended[2];
             static void slowly(void) { write(begun[1], \"x\", 1); usleep(300000); write(ended[1], \"x\", 1); }
             int prepare(void) { return pipe(begun) || pipe(ended) || atexit(slowly); }
             int began(void) { char c; return read(begun[0], &c, 1); }
             int has_ended(void) { return ended[0]; }",
            &[],
        );
        let done = hydrozoa_testkit::process::in_child(20, || {
            let domain = domain(&loader());
            let library = opened(&domain, &path);
            assert_eq!(call(&library, "prepare"), 0);
            let (began, end) = (function_of(&library, "began"), call(&library, "has_ended"));
            // SAFETY: always. The child's child exits, and this one reads its output.
            let child = unsafe { libc::fork() };
            if child == 0 {
                thread::spawn(move || retire(domain));
                began();
                std::process::exit(7);
            }
            let (mut status, mut byte) = (0, 0u8);
            // SAFETY: the child is ours. The descriptor is a pipe's, which holds one byte or none.
            let read = unsafe {
                libc::waitpid(child, &mut status, 0);
                libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK);
                libc::read(end, (&raw mut byte).cast(), 1)
            };
            format!("status {}, {read} handler has ended", libc::WEXITSTATUS(status))
        });
        assert_eq!(done.unwrap(), "status 7, 1 handler has ended");
    });
}

#[test]
fn a_domain_that_exits_at_its_end_waits_for_nobody() {
    alone(PATIENCE, || {
        let shop = Workshop::new("exit-inside");
        let path = shop.build(
            "libexits.so",
            "#include <stdlib.h>
             static void leave(void) { exit(3); }
             int prepare(void) { return atexit(leave); }",
            &[],
        );
        let outcome = hydrozoa_testkit::process::in_child(5, || {
            let domain = domain(&loader());
            assert_eq!(call(&opened(&domain, &path), "prepare"), 0);
            retire(domain);
            "the exit has returned".to_owned()
        });
        assert_eq!(outcome.unwrap_err(), "it ended with status 0x300");
    });
}
