//! Signals are the application's: its handlers, its Ctrl-C, and which of its threads take a signal.

mod handlers;
mod pythons;

use hydrozoa::{Error, Pool, Session};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::Workshop;
use hydrozoa_testkit::process::in_child;
use pythons::{each_pool_alone, pools};
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{mem, ptr, thread};

/// Seconds that a child may take on a busy machine.
const CHILD: u32 = 120;

/// asm/signal.h: the kernel's and the C library's own business.
const SA_RESTORER: c_int = 0x0400_0000;

static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handler(_: c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn other_handler(_: c_int) {}

fn install(signal: c_int, handler: extern "C" fn(c_int)) {
    // SAFETY: zero is a value of every field, and the handlers are async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (handler as *const () as usize, libc::SA_RESTART);
        assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
    }
}

/// The process's action on each signal: the handler, its flags and its mask.
fn dispositions() -> Vec<(c_int, usize, c_int, u64)> {
    let of = |signal| {
        // SAFETY: zero is a value of every field; the place is valid, and the mask's first word has the signals.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            if libc::sigaction(signal, ptr::null(), &mut action) != 0 {
                return None;
            }
            let mask = ptr::from_ref(&action.sa_mask).cast::<u64>().read();
            // The C library adds SA_RESTORER to what it passes on, and it means nothing here.
            Some((signal, action.sa_sigaction, action.sa_flags & !SA_RESTORER, mask))
        }
    };
    (1..=64).filter_map(of).collect()
}

/// Code that handles signals in plain python, or as soon as it is imported.
const IMPORTS: &str = "
import asyncio, faulthandler, multiprocessing, signal, subprocess, unittest
try:
    import readline
except ImportError:
    pass
async def nothing():
    await asyncio.sleep(0)
asyncio.run(nothing())
assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
subprocess.run(['true'], check=True)
";

fn is_untouched(pool: Pool, work: &str) {
    let before = dispositions();
    pool.acquire().unwrap().run(work, "work").unwrap();
    assert_eq!(dispositions(), before, "an import has changed them");
    drop(pool);
    assert_eq!(dispositions(), before, "the end of a pool has changed them");
}

#[test]
fn handlers_stay_whatever_python_imports_and_when_a_pool_ends() {
    alone(PATIENCE, || {
        // The first interpreter of a process brings the handler of reports of crashes, which stays.
        drop(pools(1).next());
        let none = dispositions();
        pools(1).for_each(|pool| is_untouched(pool, IMPORTS));
        assert_eq!(dispositions(), none);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGWINCH, libc::SIGUSR1, libc::SIGCHLD] {
            install(signal, handler);
        }
        pools(1).for_each(|pool| is_untouched(pool, IMPORTS));
        HANDLED.store(0, Ordering::Relaxed);
        // SAFETY: the handler is ours.
        unsafe { libc::raise(libc::SIGINT) };
        assert_eq!(HANDLED.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_handler_that_is_installed_beside_an_interpreter_stays_when_that_ends() {
    each_pool_alone(1, |pool| {
        // The table of Python's module is filled before the application has a handler.
        pool.acquire().unwrap().run("import signal, asyncio, faulthandler", "early").unwrap();
        pool.acquire()
            .unwrap()
            .run("faulthandler = __import__('faulthandler'); faulthandler.enable()", "enable")
            .unwrap();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGSEGV, libc::SIGFPE] {
            install(signal, other_handler);
        }
        let installed = dispositions();
        drop(pool);
        let kept = |signal: c_int| {
            let find = |all: &[(c_int, usize, c_int, u64)]| {
                all.iter().find(|one| one.0 == signal).copied()
            };
            assert_eq!(find(&dispositions()), find(&installed), "signal {signal}");
        };
        [libc::SIGINT, libc::SIGTERM, libc::SIGSEGV, libc::SIGFPE].into_iter().for_each(kept);
    });
}

#[test]
fn faulthandler_that_is_asked_for_is_there_until_its_interpreter_ends() {
    each_pool_alone(1, |pool| {
        let before = dispositions();
        let session = pool.acquire().unwrap();
        session
            .run("import faulthandler, signal\nfaulthandler.enable()\nfaulthandler.register(signal.SIGUSR2)", "ask")
            .unwrap();
        let during = dispositions();
        for signal in [libc::SIGSEGV, libc::SIGABRT, libc::SIGUSR2] {
            let of = |all: &[(c_int, usize, c_int, u64)]| {
                all.iter().find(|one| one.0 == signal).map(|one| one.1)
            };
            assert_ne!(of(&during), of(&before), "signal {signal}");
        }
        drop(session);
        drop(pool);
        assert_eq!(dispositions(), before);
    });
}

#[test]
fn a_handler_of_python_is_refused_in_words() {
    alone(PATIENCE, || {
        install(libc::SIGUSR1, handler);
        for pool in pools(1) {
            let before = dispositions();
            let session = pool.acquire().unwrap();
            let refused = session.run("import signal\nsignal.signal(signal.SIGTERM, print)", "s");
            match refused.map(drop) {
                Err(Error::Python { type_name, message, .. }) => {
                    assert_eq!(type_name, "ValueError");
                    assert!(message.contains("main thread"), "{message}");
                }
                other => panic!("{other:?}"),
            }
            let taken = session.run("import faulthandler\nfaulthandler.register(10)", "taken");
            match taken.map(drop) {
                Err(Error::Python { type_name, message, .. }) => {
                    assert_eq!(type_name, "PermissionError");
                    assert!(message.contains("not permitted"), "{message}");
                }
                other => panic!("{other:?}"),
            }
            // At its end Python runs code on its main thread.
            let file = tempfile::NamedTempFile::new().unwrap();
            let late = format!(
                "import atexit, signal\ndef late():\n    try:\n        signal.signal(signal.SIGTERM, print)\n    \
                 except OSError as error:\n        open({:?}, 'w').write(repr(error))\natexit.register(late)",
                file.path()
            );
            session.run(&late, "late").unwrap();
            drop(session);
            drop(pool);
            let told = std::fs::read_to_string(file.path()).unwrap();
            assert!(told.starts_with("PermissionError"), "{told:?}");
            assert_eq!(dispositions(), before);
        }
    });
}

#[test]
fn a_forked_child_of_python_code_handles_signals_as_python_does() {
    alone(PATIENCE, || {
        install(libc::SIGTERM, handler);
        for pool in pools(1) {
            let code = "
import os, signal, warnings
warnings.simplefilter('ignore')
child = os.fork()
if child == 0:
    seen = []
    signal.signal(signal.SIGTERM, lambda *what: seen.append(what[0]))
    os.kill(os.getpid(), signal.SIGTERM)
    os._exit(seen[0])
status = os.waitpid(child, 0)[1]
assert os.waitstatus_to_exitcode(status) == signal.SIGTERM, status
";
            pool.acquire().unwrap().run(code, "fork").unwrap();
        }
    });
}

/// Raises SIGINT while a thread runs Python, or before or after that, in a child without a handler.
fn interrupted(point: &str) -> Result<String, String> {
    in_child(CHILD, || {
        // SAFETY: the child has one thread, and no handler of its own.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        let pool: Vec<Pool> = pools(1).collect();
        // SAFETY: ends the process.
        let interrupt = || unsafe { libc::kill(libc::getpid(), libc::SIGINT) };
        if point == "before" {
            interrupt();
        }
        let sessions: Vec<Session> = pool.iter().map(|pool| pool.acquire().unwrap()).collect();
        for session in &sessions {
            session
                .run("import signal, asyncio, threading\nasyncio.run(asyncio.sleep(0))", "i")
                .unwrap();
        }
        match point {
            "while" => {
                thread::scope(|scope| {
                    for session in &sessions {
                        scope.spawn(|| {
                            session.run("import time\nwhile True: time.sleep(0.01)", "w")
                        });
                    }
                    thread::sleep(Duration::from_millis(200));
                    interrupt();
                    thread::sleep(Duration::from_secs(20));
                });
            }
            _ => {
                drop(sessions);
                drop(pool);
                interrupt();
            }
        }
        "it goes on".into()
    })
}

#[test]
fn ctrl_c_ends_a_program_without_a_handler() {
    alone(PATIENCE, || {
        for point in ["before", "while", "after"] {
            assert_eq!(interrupted(point), Err("it was ended by signal 2".into()), "{point}");
        }
    });
}

#[test]
fn signals_that_a_program_waits_for_reach_its_wait() {
    alone(PATIENCE, || {
        let waited = in_child(CHILD, || {
            let pools: Vec<Pool> = pools(2).collect();
            // Only now, when the interpreters' own threads are there.
            // SAFETY: the sets are initialized; the process has no other threads of its own.
            unsafe {
                let mut set = mem::zeroed();
                libc::sigemptyset(&mut set);
                let waited = [libc::SIGTERM, libc::SIGUSR1, libc::SIGALRM, libc::SIGRTMAX()];
                for signal in waited {
                    libc::sigaddset(&mut set, signal);
                }
                libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut());
                for signal in waited {
                    libc::kill(libc::getpid(), signal);
                    let mut taken = 0;
                    assert_eq!(libc::sigwait(&set, &mut taken), 0);
                    assert_eq!(taken, signal);
                }
            }
            drop(pools);
            "all".into()
        });
        assert_eq!(waited, Ok("all".into()));
    });
}

#[test]
fn an_interpreter_s_own_thread_ends_it_with_the_mask_of_who_drops_it() {
    each_pool_alone(1, |pool| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let code = format!(
            "import atexit, signal\n\
                 atexit.register(lambda: open({:?}, 'w').write(repr(sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))))))",
            file.path()
        );
        pool.acquire().unwrap().run(&code, "mask").unwrap();
        let dropping = thread::spawn(move || {
            // SAFETY: the set is initialized.
            unsafe {
                let mut set = mem::zeroed();
                libc::sigemptyset(&mut set);
                libc::sigaddset(&mut set, libc::SIGUSR2);
                libc::pthread_sigmask(libc::SIG_SETMASK, &set, ptr::null_mut());
            }
            drop(pool);
        });
        dropping.join().unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "[12]");
    });
}

#[test]
fn threads_that_python_starts_have_the_mask_of_the_thread_that_starts_them() {
    each_pool_alone(1, |pool| {
        let session = pool.acquire().unwrap();
        let code = "
import signal, threading
own = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
seen = []
thread = threading.Thread(target=lambda: seen.append(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
thread.start()
thread.join()
signal.pthread_sigmask(signal.SIG_SETMASK, own)
assert seen == [own | {signal.SIGUSR1}], (seen, own)
";
        session.run(code, "threads").unwrap();
    });
}

#[test]
fn a_handler_in_c_takes_the_place_of_none_of_the_application_s() {
    alone(PATIENCE, || {
        let shop = Workshop::new("handlers");
        let library = shop.build(
            "libhandlers.so",
            "#define _GNU_SOURCE
             #include <errno.h>
             #include <signal.h>
             static void handler(int number) { (void)number; }
             static int set(int number, void (*handler)(int)) {
                 struct sigaction action = { .sa_handler = handler };
                 return sigaction(number, &action, NULL) == 0 ? 0 : errno;
             }
             int install(int number) { return set(number, handler); }
             int ignore(int number) { return set(number, SIG_IGN); }
             int reset(int number) { return set(number, SIG_DFL); }
             int by_signal(int number) { return signal(number, handler) == SIG_ERR ? errno : 0; }",
            &[],
        );
        install(libc::SIGUSR1, handler);
        install(libc::SIGSEGV, other_handler);
        for pool in pools(1) {
            let before = dispositions();
            let session = pool.acquire().unwrap();
            let code = format!(
                "import ctypes, errno, signal\n\
                 own = ctypes.CDLL({library:?})\n\
                 for call in own.install, own.ignore, own.reset, own.by_signal:\n    \
                 assert call(signal.SIGUSR1) == errno.EPERM, call\n\
                 assert own.reset(signal.SIGSEGV) == errno.EPERM\n"
            );
            session.run(&code, "refused").unwrap();
            assert_eq!(dispositions(), before);
            let code = "
for call in own.install, own.by_signal, own.ignore, own.install, own.reset:
    assert call(signal.SIGUSR2) == 0, call
assert own.install(signal.SIGSEGV) == 0
";
            let code = format!("import ctypes, signal\nown = ctypes.CDLL({library:?})\n{code}");
            session.run(&code, "passed").unwrap();
            let handler_of = |signal| dispositions().iter().find(|one| one.0 == signal).unwrap().1;
            assert_eq!(handler_of(libc::SIGUSR2), libc::SIG_DFL);
            assert_ne!(handler_of(libc::SIGSEGV), other_handler as *const () as usize);
            install(libc::SIGSEGV, other_handler);
        }
    });
}

#[test]
fn each_handler_of_sigchld_is_called_whoever_has_set_it() {
    alone(PATIENCE, || {
        let shop = Workshop::new("child-handlers");
        let library = shop.build(
            "libchildren.so",
            "#include <signal.h>
             int calls;
             static void handler(int number) { (void)number; calls++; }
             int install(void) {
                 struct sigaction action = { .sa_handler = handler, .sa_flags = SA_NOCLDWAIT | SA_RESETHAND };
                 sigfillset(&action.sa_mask);
                 return sigaction(SIGCHLD, &action, 0);
             }
             int reset(void) { return signal(SIGCHLD, SIG_DFL) == SIG_ERR; }",
            &[],
        );
        for pool in pools(3) {
            install(libc::SIGCHLD, handler);
            let before = dispositions();
            // In an order that is not that of their beginnings.
            let sessions = [1, 0, 2].map(|index| pool.interpreters()[index].session());
            let code = format!(
                "import ctypes, signal\nown = ctypes.CDLL({library:?})\nassert own.install() == 0\n"
            );
            let owns =
                sessions.each_ref().map(|session| session.run(&code, "install").unwrap().keep());
            let calls = |session: &Session, own: &hydrozoa::Handle| {
                let own = own.attach(session).unwrap().getattr("own").unwrap();
                let ctypes = session.import("ctypes").unwrap();
                let int = ctypes.getattr("c_int").unwrap();
                let calls = int.call_method("in_dll", (own, "calls")).unwrap();
                calls.getattr("value").unwrap().extract::<usize>().unwrap()
            };
            let all = || {
                let own = sessions.each_ref().into_iter().zip(&owns);
                let mut all: Vec<usize> = own.map(|(session, own)| calls(session, own)).collect();
                all.push(HANDLED.load(Ordering::Relaxed));
                all
            };
            let sent = || {
                let before = all();
                // SAFETY: the handlers are async-signal-safe.
                assert_eq!(unsafe { libc::raise(libc::SIGCHLD) }, 0);
                all().iter().zip(before).map(|(now, before)| now - before).collect::<Vec<_>>()
            };
            assert_eq!(sent(), [1; 4]);
            let now = dispositions();
            let flags = now.iter().find(|one| one.0 == libc::SIGCHLD).unwrap().2;
            assert_eq!(flags & (libc::SA_RESTART | libc::SA_NOCLDWAIT), libc::SA_RESTART);
            let reset = || -> hydrozoa::Result<i32> {
                owns[0].attach(&sessions[0])?.getattr("own")?.call_method("reset", ())?.extract()
            };
            assert_eq!(reset().unwrap(), 0);
            assert_eq!(sent(), [0, 1, 1, 1]);
            drop((owns, sessions));
            pool.close(PATIENCE).unwrap();
            assert_eq!(dispositions(), before);
        }
    });
}

#[test]
fn initialised_thread_local_data_loads_while_a_thread_of_python_blocks_all_signals() {
    alone(PATIENCE, || {
        let shop = Workshop::new("watchdog");
        for (index, pool) in pools(2).enumerate() {
            let library = shop.build(
                &format!("libwatchdog{index}.so"),
                "static __thread int count __attribute__((tls_model(\"initial-exec\"))) = 41;
                 int next(void) { return ++count; }",
                &[],
            );
            let code = format!(
                "import ctypes, faulthandler, threading, time\n\
                 faulthandler.dump_traceback_later(200)\n\
                 began = time.monotonic()\n\
                 library = ctypes.CDLL({library:?})\n\
                 assert time.monotonic() - began < 1.5\n\
                 faulthandler.cancel_dump_traceback_later()\n\
                 seen = [library.next()]\n\
                 thread = threading.Thread(target=lambda: seen.append(library.next()))\n\
                 thread.start()\n\
                 thread.join()\n\
                 assert seen == [42, 42], seen\n"
            );
            for index in 0..2 {
                pool.acquire_on(index).unwrap().run(&code, "watchdog").unwrap();
            }
        }
    });
}

#[test]
fn stacks_are_read_where_the_application_handles_the_last_signals() {
    alone(PATIENCE, || {
        [libc::SIGRTMAX(), libc::SIGRTMAX() - 1].into_iter().for_each(|it| install(it, handler));
        for pool in pools(1) {
            let before = dispositions();
            let session = pool.acquire().unwrap();
            let _handle = session.interrupt_handle();
            let look = session.function("look", |session, _| {
                let stacks = session.interpreter().stacks()?;
                session.object_from(&stacks)
            });
            let namespace = session.run("def outer():\n    return look()", "looking.py").unwrap();
            namespace.setattr("look", look.unwrap()).unwrap();
            let outer = namespace.getattr("outer").unwrap();
            let stacks: Vec<String> =
                (0..2).map(|_| outer.call(()).unwrap().extract().unwrap()).collect();
            assert!(stacks.iter().any(|stack| stack.contains("in outer")), "{stacks:?}");
            assert_eq!(dispositions(), before);
            drop((outer, namespace));
            drop((session, pool));
            assert_eq!(dispositions(), before);
        }
    });
}

#[test]
fn stacks_are_read_though_another_takes_the_last_signal_later() {
    each_pool_alone(1, |pool| {
        let session = pool.acquire().unwrap();
        // As the loader does while it initializes thread-local data of threads that run.
        install(libc::SIGRTMAX(), handler);
        let look = session.function("look", |session, _| {
            let stacks = session.interpreter().stacks()?;
            session.object_from(&stacks)
        });
        let stacks: String = look.unwrap().call(()).unwrap().extract().unwrap();
        assert!(stacks.contains("most recent call first"), "{stacks:?}");
        let own = |found: &(c_int, usize, c_int, u64)| found.1 == handler as *const () as usize;
        assert!(dispositions().iter().any(own), "the program's handler is gone");
        // SAFETY: the default action.
        unsafe { libc::signal(libc::SIGRTMAX(), libc::SIG_DFL) };
    });
}
