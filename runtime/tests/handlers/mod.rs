//! Handlers that code of several interpreters installs for one signal.

use crate::pythons::{each_pool_alone, pools};
use crate::{dispositions, install, other_handler};
use hydrozoa::Session;
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::Workshop;
use std::ffi::c_int;
use std::{mem, ptr};

/// Has an interpreter write its stacks to the file when the signal comes.
fn register(session: &Session, signal: c_int, chain: bool) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let chain = if chain { "True" } else { "False" };
    let code = format!(
        "import faulthandler\nfile = open({:?}, 'w')\n\
         faulthandler.register({signal}, file=file, all_threads=False, chain={chain})\n\
         import builtins\nbuiltins.kept = file",
        file.path()
    );
    session.run(&code, "register").unwrap();
    file
}

fn length(file: &tempfile::NamedTempFile) -> u64 {
    file.as_file().metadata().unwrap().len()
}

/// Sends a signal to the calling thread. Returns which of the files have grown by it.
fn grown<const N: usize>(signal: c_int, files: [&tempfile::NamedTempFile; N]) -> [bool; N] {
    let before = files.map(length);
    // SAFETY: a handler was installed, or the signal is ignored.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
    std::array::from_fn(|index| length(files[index]) > before[index])
}

/// Gives the calling thread a stack for signals of so many bytes.
fn take_stack_for_signals(size: usize) {
    let own = vec![0_u8; size].leak();
    let stack = libc::stack_t { ss_sp: own.as_mut_ptr().cast(), ss_flags: 0, ss_size: size };
    // SAFETY: the memory is never freed.
    assert_eq!(unsafe { libc::sigaltstack(&stack, ptr::null_mut()) }, 0);
}

#[test]
fn handlers_of_two_interpreters_go_with_their_interpreters_in_either_order() {
    each_pool_alone(2, |pool| {
        let before = dispositions();
        for [first, second] in [[0, 1], [1, 0]] {
            let [zero, one] = [0, 1].map(|index| {
                let session = pool.acquire_on(index).unwrap();
                session.run("import faulthandler\nfaulthandler.enable()", "enable").unwrap();
                register(&session, libc::SIGUSR1, false)
            });
            // The newest handler is the process's.
            assert_eq!(grown(libc::SIGUSR1, [&zero, &one]), [false, true]);
            drop(pool.replace(first).unwrap());
            assert_eq!(grown(libc::SIGUSR1, [&zero, &one]), [first == 1, first == 0]);
            let kept = dispositions();
            drop(pool.replace(second).unwrap());
            assert_ne!(dispositions(), kept);
            assert_eq!(dispositions(), before);
        }
    });
}

#[test]
fn a_handler_that_is_taken_back_leaves_that_of_another_interpreter() {
    each_pool_alone(2, |pool| {
        let before = dispositions();
        let sessions = [0, 1].map(|index| pool.acquire_on(index).unwrap());
        let [zero, one] = sessions.each_ref().map(|it| register(it, libc::SIGUSR1, false));
        let unregister = |index: usize| {
            sessions[index]
                .run("import faulthandler\nfaulthandler.unregister(10)", "unregister")
                .unwrap();
        };
        unregister(0);
        assert_eq!(grown(libc::SIGUSR1, [&zero, &one]), [false, true]);
        let zero = register(&sessions[0], libc::SIGUSR1, false);
        unregister(0);
        assert_eq!(grown(libc::SIGUSR1, [&zero, &one]), [false, true]);
        unregister(1);
        assert_eq!(dispositions(), before);
    });
}

#[test]
fn handlers_that_chain_call_those_of_the_other_interpreters_and_stay() {
    alone(PATIENCE, || {
        // One runs in the other, so each takes room on the thread's stack for signals: some 4 KiB with a processor's AVX-512.
        take_stack_for_signals(64 << 10);
        for pool in pools(2) {
            // Ignored by default, so the last of the chain does nothing.
            let [zero, one] =
                [0, 1].map(|index| register(&pool.acquire_on(index).unwrap(), libc::SIGURG, true));
            for _ in 0..3 {
                assert_eq!(grown(libc::SIGURG, [&zero, &one]), [true; 2]);
            }
            drop(pool.replace(1).unwrap());
            for _ in 0..3 {
                assert_eq!(grown(libc::SIGURG, [&zero, &one]), [true, false]);
            }
            let one = register(&pool.acquire_on(1).unwrap(), libc::SIGURG, true);
            drop(pool.replace(0).unwrap());
            for _ in 0..3 {
                assert_eq!(grown(libc::SIGURG, [&zero, &one]), [false, true]);
            }
        }
    });
}

/// A library that handles signals by each function of the C library that does so. It returns the former handlers.
const HANDLING: &str = "
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
static int handled;
static void handler(int number) { (void)number; handled++; }
int count(void) { return handled; }
long now(int number) {
    struct sigaction action;
    return sigaction(number, 0, &action) == 0 ? (long)action.sa_handler : -errno;
}
long by_sigaction(int number, long to) {
    struct sigaction action = { .sa_handler = to ? (void (*)(int))to : handler }, old;
    return sigaction(number, &action, &old) == 0 ? (long)old.sa_handler : -errno;
}
static long told(void (*old)(int)) { return old == SIG_ERR ? -errno : (long)old; }
long by_signal(int number, long to) { return told(signal(number, to ? (void (*)(int))to : handler)); }
long by_ssignal(int number, long to) { return told(ssignal(number, to ? (void (*)(int))to : handler)); }
long by_sysv(int number, long to) { return told(sysv_signal(number, to ? (void (*)(int))to : handler)); }
long by_bsd(int number, long to) {
    extern void (*bsd_signal(int, void (*)(int)))(int);
    return told(bsd_signal(number, to ? (void (*)(int))to : handler));
}
long by_sigset(int number, long to) { return told(sigset(number, to ? (void (*)(int))to : handler)); }
int interrupts(int number, int flag) { return siginterrupt(number, flag) == 0 ? 0 : errno; }
int ignore(int number) { return sigignore(number) == 0 ? 0 : errno; }
void reset(int number) { signal(number, SIG_DFL); }
";

#[test]
fn code_in_c_sees_its_own_handlers_and_the_program_s_and_none_of_another_interpreter() {
    alone(PATIENCE, || {
        let shop = Workshop::new("handling");
        let library = shop.build("libhandling.so", HANDLING, &["-Wno-deprecated-declarations"]);
        for pool in pools(2) {
            let before = dispositions();
            let handler_of = |signal| dispositions().iter().find(|one| one.0 == signal).unwrap().1;
            let run = |index: usize, code: &str| {
                let code = format!(
                    "import ctypes\nown = ctypes.CDLL({library:?})\n\
                     ways = [getattr(own, 'by_' + name) for name in 'sigaction signal ssignal bsd sysv sigset'.split()]\n\
                     for way in ways + [own.now]: way.restype = ctypes.c_long; way.argtypes = [ctypes.c_int, ctypes.c_long]\n\
                     own.now.argtypes = [ctypes.c_int]\n{code}"
                );
                pool.acquire_on(index).unwrap().run(&code, "handling").unwrap();
            };
            for way in ["sigaction", "signal", "ssignal", "bsd", "sysv", "sigset"] {
                let install = format!(
                    "assert own.now(12) == 0, own.now(12)\nassert own.by_{way}(12, 0) == 0\n\
                     assert own.by_{way}(12, own.now(12)) == own.now(12) > 0\n\
                     assert own.interrupts(12, 1) == 0"
                );
                run(0, &install);
                let first = handler_of(libc::SIGUSR2);
                assert_ne!(first, libc::SIG_DFL);
                run(1, &install);
                let second = handler_of(libc::SIGUSR2);
                assert!(![first, libc::SIG_DFL].contains(&second), "{way}");
                // SAFETY: the handler counts.
                unsafe { libc::raise(libc::SIGUSR2) };
                run(1, "assert own.count() == 1");
                run(0, "assert own.count() == 0");
                run(1, "own.reset(12)\nassert own.now(12) == 0");
                assert_eq!(handler_of(libc::SIGUSR2), first, "{way}");
                run(1, "assert own.ignore(12) == 0\nassert own.now(12) == 1");
                assert_eq!(handler_of(libc::SIGUSR2), libc::SIG_IGN);
                drop(pool.replace(1).unwrap());
                assert_eq!(handler_of(libc::SIGUSR2), first, "{way}");
                drop(pool.replace(0).unwrap());
                assert_eq!(dispositions(), before, "{way}");
            }
        }
    });
}

#[test]
fn a_handler_that_the_program_puts_over_those_of_interpreters_stays() {
    each_pool_alone(2, |pool| {
        let before = dispositions();
        let files =
            [0, 1].map(|index| register(&pool.acquire_on(index).unwrap(), libc::SIGUSR1, false));
        install(libc::SIGUSR1, other_handler);
        let installed = dispositions();
        assert_eq!(grown(libc::SIGUSR1, files.each_ref()), [false; 2]);
        drop(pool.replace(1).unwrap());
        assert_eq!(dispositions(), installed);
        drop(pool);
        assert_eq!(dispositions(), installed);
        // SAFETY: zero is a value of every field, and SIG_DFL an action.
        unsafe { libc::sigaction(libc::SIGUSR1, &mem::zeroed(), ptr::null_mut()) };
        assert_eq!(dispositions(), before);
    });
}
