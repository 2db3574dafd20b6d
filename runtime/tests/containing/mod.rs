//! Processes in which crashes are contained, or not.

use crate::pythons::pythons;
use hydrozoa::{Error, Function, Pool, Session, on_crash};
use hydrozoa_testkit::libraries::Workshop;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const KIND: &str = "HYDROZOA_TEST_CONTAINED";
const LIBRARY_PATH: &str = "HYDROZOA_TEST_CONTAINED_LIBRARY";
/// How many crashes the soak has, if not thirty.
const CRASHES: &str = "HYDROZOA_TEST_CRASHES";
const MINOR: &str = "HYDROZOA_TEST_CONTAINED_ON";

/// How long a thing may take that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

fn run(kind: &str, minor: u8) -> Output {
    let workshop = Workshop::new(&format!("containment-{kind}-{minor}"));
    let library = workshop.build("containing++.so", LIBRARY, &FLAGS);
    Command::new(std::env::current_exe().unwrap())
        .args(["inside", "--exact", "--nocapture"])
        .env(LIBRARY_PATH, library)
        .env(KIND, kind)
        .env(MINOR, minor.to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn first_python() -> u8 {
    *pythons().keys().next().unwrap()
}

/// A process in which the crash is contained, and that ends well.
#[track_caller]
pub fn contained(kind: &str) {
    contained_on(first_python(), kind);
}

#[track_caller]
pub fn contained_on(minor: u8, kind: &str) {
    let output = run(kind, minor);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{kind} on 3.{minor}: {}\n{errors}", output.status);
    assert!(!errors.contains("hydrozoa:"), "{kind} on 3.{minor}:\n{errors}");
}

/// A process in which a crash of a child ends that, for this reason, and then one of its own is contained.
#[track_caller]
pub fn contained_after_child(kind: &str, why: &str) {
    let output = run(kind, first_python());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{kind}: {}\n{errors}", output.status);
    assert_eq!(errors.matches("hydrozoa: ").count(), 1, "{errors}");
    assert!(errors.contains(&format!("not contained: {why}")), "{errors}");
}

/// A process that the crash ends, with a report that says why.
#[track_caller]
pub fn refused(kind: &str, signal: i32, why: &str) {
    let output = run(kind, first_python());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(signal), "{kind}:\n{errors}");
    assert!(errors.contains("hydrozoa: SIG"), "{kind}:\n{errors}");
    assert!(errors.contains(&format!("not contained: {why}")), "{kind}:\n{errors}");
}

const CODE: &str = "
import ctypes, os, sys, threading
library = ctypes.CDLL(LIBRARY)
def reads_nothing(): ctypes.string_at(0)
def aborts(): os.abort()
def sends():
    import subprocess
    code = 'import ctypes, sys; ctypes.CDLL(None).syscall(234, int(sys.argv[1]), int(sys.argv[2]), 8)'
    subprocess.run(['python3', '-c', code, str(os.getpid()), str(threading.get_native_id())])
def calls_the_host(): host()
def crashes_in_a_child():
    child = os.fork()
    if child == 0:
        library.crashes(0)
    status = os.waitpid(child, 0)[1]
    assert os.WTERMSIG(status) == 11, status
    library.crashes(0)
def crashes_at_the_end():
    import atexit
    atexit.register(library.crashes, 0)
def on_a_thread(name):
    target = globals().get(name) or (lambda: getattr(library, name)(0))
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
def recurses():
    # Each call goes through C.
    import functools
    sys.setrecursionlimit(10**9)
    def call(): return functools.reduce(lambda a, b: call(), [1, 2])
    call()
def waits(): threading.Event().wait()
def keeps_busy():
    while True: pass
def answer(n): return sum(i * i for i in range(n))
";

const LIBRARY: &str = r#"
#include <assert.h>
#include <omp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>
extern "C" void __stack_chk_fail(void);
extern "C" void __longjmp_chk(jmp_buf, int);
static __attribute__((noinline)) void saves(jmp_buf place) {
    volatile char room[65536];
    room[0] = 1;
    setjmp(place);
    room[1] = 1;
}
static __attribute__((noinline)) void writes(int *place) { *(volatile int *)place = 1; }
extern "C" {
__attribute__((noinline)) int overflows(int depth) {
    volatile char room[512];
    room[0] = (char)depth;
    return overflows(depth + 1) + room[0];
}
void crashes() { writes((int *)16); __asm__ volatile(""); }
void throws() { throw std::runtime_error("nobody"); }
void calls_null() { void (*volatile none)() = 0; none(); __asm__ volatile(""); }
void jumps() { void (*volatile wild)() = (void (*)())0x123456789; wild(); __asm__ volatile(""); }
int divides(int by) { volatile int zero = by; return 7 / zero; }
void illegal() { __builtin_trap(); }
void asserts() { assert(!"is true"); }
void terminates() { std::terminate(); }
static int compares(const void *, const void *) { crashes(); return 0; }
void sorts() { int two[2] = { 1, 0 }; qsort(two, 2, sizeof *two, compares); __asm__ volatile(""); }
void is_out_of_range() { std::vector<int> few(3); few.at(7) = 1; }
struct Base { Base() { calls(); } void calls() { pure(); } virtual void pure() = 0; virtual ~Base() {} };
struct Derived : Base { void pure() override {} };
void calls_pure() { Derived derived; __asm__ volatile(""); }
struct Late { virtual void pure() = 0; virtual ~Late() {} };
struct Later : Late { void pure() override {} };
void uses_freed() {
    Late *freed = new Later();
    memset((void *)freed, 0x41, sizeof *freed);
    freed->pure();
}
void protects() { __stack_chk_fail(); }
void jumps_back() { jmp_buf place; saves(place); __longjmp_chk(place, 1); }
void prints() { printf("%s", (char *)16); fflush(stdout); }
__attribute__((noinline)) void smashes() {
    volatile long room[4];
    for (int i = 0; i < 64; i++) ((volatile long *)room)[i] = 0x4141414141414141;
}
void crashes_on_a_thread() { std::thread thread(crashes); thread.join(); }
void crashes_on_a_thread_of_c() {
    pthread_t thread;
    pthread_create(&thread, 0, [](void *) -> void * { crashes(); return 0; }, 0);
    pthread_join(thread, 0);
}
void crashes_in_a_team() {
    #pragma omp parallel num_threads(3)
    if (omp_get_thread_num() == 2) crashes();
}
// Freed blocks point to what cannot be read.
void breaks_malloc() {
    void *blocks[64];
    for (int size = 16; size < 4096; size += 16) {
        for (int i = 0; i < 64; i++) blocks[i] = malloc(size);
        for (int i = 0; i < 64; i++) { memset(blocks[i], 0x41, size); free(blocks[i]); }
        for (int i = 0; i < 64; i++) memset((char *)blocks[i], 0x41, size);
    }
    for (int size = 16; size < 4096; size += 16) for (int i = 0; i < 80; i++) malloc(size);
}
void holds_a_mutex() { static std::mutex mutex; std::lock_guard<std::mutex> held(mutex); crashes(); }
void ends() { _exit(9); }
void bus() {
    char name[] = "/tmp/hydrozoa-crash-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    char *page = (char *)mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    *(volatile char *)page;
}
}
"#;

/// Frames stay as they are written.
const FLAGS: [&str; 3] = ["-fno-stack-protector", "-fno-optimize-sibling-calls", "-fopenmp"];

/// Crashes, in a process that was made for it.
pub fn inside() {
    let Ok(kind) = std::env::var(KIND) else { return };
    // SAFETY: core files have no use here.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) };
    let minor: u8 = std::env::var(MINOR).unwrap().parse().unwrap();
    on_crash(|report| SEEN.store(report.is_contained, Ordering::SeqCst));
    let builder = Pool::builder().interpreters(3).python(&pythons()[&minor]);
    let builder = builder.contain_crashes(true).replace_crashed(kind != "stays");
    let pool = builder.build().unwrap();
    match &*kind {
        "soak" => soak(&pool),
        "stays" => stays(&pool),
        "at_the_end" => at_the_end(&pool),
        _ => scenario(&pool, &kind),
    }
    replaced(&pool, 1);
    serves(&pool);
    pool.close(PATIENCE).unwrap();
    assert_eq!(DROPS.load(Ordering::SeqCst), usize::from(kind.starts_with("nested")));
    assert_eq!(hydrozoa::wait_for_ends(PATIENCE), 0);
}

fn module<'s>(session: &'s Session) -> hydrozoa::Object<'s> {
    let library = std::env::var(LIBRARY_PATH).unwrap();
    session.run(&format!("LIBRARY = {library:?}\n{CODE}"), "containing.py").unwrap()
}

/// Whether the program's function has seen a contained crash.
static SEEN: AtomicBool = AtomicBool::new(false);

/// The pool leaves a crashed interpreter where it is, and leases it last.
fn stays(pool: &Pool) {
    scenario(pool, "crashes");
    thread::sleep(Duration::from_millis(200));
    assert_eq!(pool.interpreters()[1].generation(), 0);
    let sessions: Vec<_> = (0..4).map(|_| pool.acquire().unwrap()).collect();
    assert!(sessions.iter().all(|session| session.interpreter().index() != 1));
    assert!(pool.acquire_timeout(Duration::ZERO).is_err());
    drop(sessions);
    drop(pool.replace(1).unwrap());
}

/// An interpreter crashes while it is finalized.
fn at_the_end(pool: &Pool) {
    let session = pool.acquire_on(1).unwrap();
    module(&session).call_method("crashes_at_the_end", ()).unwrap();
    drop(session);
    pool.replace(1).unwrap().close(PATIENCE).unwrap();
    assert!(SEEN.load(Ordering::SeqCst));
}

/// `PLACE:KIND`, where the place is none for the application's thread.
fn scenario(pool: &Pool, kind: &str) {
    let (place, kind) = kind.split_once(':').unwrap_or(("", kind));
    let session = pool.acquire_on(1).unwrap();
    let module = module(&session);
    let crash = || {
        let library = module.getattr("library").unwrap();
        match module.getattr(kind) {
            Ok(function) => function.call(()).map(drop),
            Err(_) => library.call_method(kind, (0,)).map(drop),
        }
    };
    let outcome = match place {
        "" => crash(),
        "python_thread" => module.call_method("on_a_thread", (kind,)).map(drop),
        "nested" => nested(pool, &session, &module, kind),
        "waiters" => with_waiters(pool, &module, crash),
        "import" => import(&session, kind),
        "host" => {
            let host = Function::new("host", |session, _| {
                // SAFETY: none: it faults.
                unsafe { std::ptr::without_provenance_mut::<i32>(8).write_volatile(1) };
                session.eval("None")
            });
            module.setattr("host", host.make(&session).unwrap()).unwrap();
            module.call_method("calls_the_host", ()).map(drop)
        }
        _ => panic!("there is no place {place}"),
    };
    is_report(outcome, kind);
    assert!(session.interpreter().has_crashed() && SEEN.load(Ordering::SeqCst));
    assert!(matches!(session.eval("1"), Err(Error::Crashed { .. })));
}

/// A value of the application's that Python has. It is dropped although Python does not let go of it.
struct Counted;

static DROPS: AtomicUsize = AtomicUsize::new(0);

impl Drop for Counted {
    fn drop(&mut self) {
        DROPS.fetch_add(1, Ordering::SeqCst);
    }
}

/// Python of one interpreter calls the host, which calls another interpreter and then the first one, where it crashes.
fn nested(
    pool: &Pool,
    session: &Session,
    module: &hydrozoa::Object<'_>,
    kind: &str,
) -> hydrozoa::Result<()> {
    let (outer, name) = (pool.acquire_on(0).unwrap(), kind.to_owned());
    let (crashing, weak) = (session.interpreter().downgrade(), pool.downgrade());
    let counted = Counted;
    let inner = Function::new("host", move |own, _| {
        let _counted = &counted;
        let session = crashing.upgrade().unwrap().session();
        let library = session.import("__hydrozoa__.containing")?.getattr("library")?;
        let answer = weak.upgrade().unwrap().acquire_on(2)?.eval("6 * 7")?.extract::<i64>()?;
        assert_eq!(answer, 42);
        let outcome = library.call_method(&name, (0,)).map(drop);
        assert!(matches!(outcome, Err(Error::Crashed { .. })), "{outcome:?}");
        own.none()
    });
    module.setattr("host", inner.make(session).unwrap()).unwrap();
    let crashing = session.interpreter().downgrade();
    let host = Function::new("host", move |outer, _| {
        let session = crashing.upgrade().unwrap().session();
        let module = session.import("__hydrozoa__.containing")?;
        let outcome = module.call_method("calls_the_host", ()).map(drop);
        assert!(matches!(outcome, Err(Error::Crashed { .. })), "{outcome:?}");
        outer.eval("'came home'")
    });
    let calls = outer.run("def calls(host): return host()", "outer.py").unwrap();
    let came: String =
        calls.call_method("calls", (host.make(&outer).unwrap(),)).unwrap().extract().unwrap();
    assert_eq!(came, "came home");
    session.eval("1").map(drop)
}

/// Other threads are inside at the crash: in Python code, waiting for a lock, and waiting for the GIL.
fn with_waiters(
    pool: &Pool,
    module: &hydrozoa::Object<'_>,
    crash: impl Fn() -> hydrozoa::Result<()>,
) -> hydrozoa::Result<()> {
    module.getattr("threading").unwrap();
    thread::scope(|scope| {
        let inside: Vec<_> = ["waits", "keeps_busy", "waits", "keeps_busy"]
            .map(|name| {
                scope.spawn(move || {
                    let session = pool.acquire_on(1).unwrap();
                    let module = session.import("__hydrozoa__.containing").unwrap();
                    let outcome = module.call_method(name, ()).map(drop);
                    is_report(outcome, name);
                })
            })
            .into_iter()
            .collect();
        thread::sleep(Duration::from_millis(200));
        let outcome = crash();
        let begin = Instant::now();
        for one in inside {
            one.join().unwrap();
        }
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
        outcome
    })
}

/// A library's constructor crashes.
fn import(session: &Session, kind: &str) -> hydrozoa::Result<()> {
    let workshop = Workshop::new(&format!("containment-import-{kind}"));
    let source =
        "static __attribute__((constructor)) void begins(void) { *(volatile int *)16 = 1; }";
    let library = workshop.build("beginning.so", source, &[]);
    let code = format!("import ctypes\nctypes.CDLL({:?})", library.to_str().unwrap());
    session.run(&code, "import.py").map(drop)
}

#[track_caller]
fn is_report(outcome: hydrozoa::Result<()>, kind: &str) {
    match outcome {
        Err(Error::Crashed { report }) => {
            assert!(report.contains("in interpreter 1 (index 1)"), "{kind}: {report}");
            assert!(report.contains("Python stacks of interpreter 1:"), "{kind}: {report}");
        }
        other => panic!("{kind}: {other:?}"),
    }
}

/// Waits until the pool is whole again.
fn replaced(pool: &Pool, times: usize) {
    let begin = Instant::now();
    while pool.interpreters()[1].generation() < times {
        assert!(begin.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!pool.interpreters()[1].has_crashed());
}

fn serves(pool: &Pool) {
    for index in 0..3 {
        let session = pool.acquire_on(index).unwrap();
        answers(&module(&session));
    }
}

fn answers(module: &hydrozoa::Object<'_>) {
    let answer: i64 = module.call_method("answer", (100,)).unwrap().extract().unwrap();
    assert_eq!(answer, 328_350);
}

/// Crash after crash in one place of the pool, while the two others serve.
fn soak(pool: &Pool) {
    const KINDS: [&str; 8] = [
        "reads_nothing",
        "crashes",
        "calls_null",
        "aborts",
        "throws",
        "overflows",
        "sorts",
        "crashes_on_a_thread",
    ];
    let crashes: usize = std::env::var(CRASHES).map_or(30, |count| count.parse().unwrap());
    let (is_over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let warm = thread::scope(|scope| {
        for index in [0, 2] {
            let (is_over, served) = (&is_over, &served);
            scope.spawn(move || {
                let session = pool.acquire_on(index).unwrap();
                let module = module(&session);
                while !is_over.load(Ordering::Relaxed) {
                    answers(&module);
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (mut warm, mut longest) = (None, Duration::ZERO);
        for (number, kind) in KINDS.into_iter().cycle().take(crashes).enumerate() {
            {
                let session = pool.acquire_on(1).unwrap();
                let module = module(&session);
                let begin = Instant::now();
                let outcome = match module.getattr(kind) {
                    Ok(function) => function.call(()).map(drop),
                    Err(_) => module.getattr("library").unwrap().call_method(kind, (0,)).map(drop),
                };
                longest = longest.max(begin.elapsed());
                assert!(matches!(outcome, Err(Error::Crashed { .. })), "{kind}: {outcome:?}");
            }
            replaced(pool, number + 1);
            if number == crashes / 3 {
                warm = Some(Resources::now());
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let served = served.load(Ordering::Relaxed);
        println!("{crashes} crashes, the longest {longest:?}; {served} answers");
        warm.unwrap()
    });
    thread::sleep(Duration::from_secs(1));
    let end = Resources::now();
    println!("warm {warm:?}, at the end {end:?}");
    assert!(end.threads <= warm.threads + 1, "{warm:?} {end:?}");
    assert!(end.descriptors <= warm.descriptors + 1, "{warm:?} {end:?}");
    assert!(end.mappings <= warm.mappings + 40, "{warm:?} {end:?}");
    assert!(end.memory <= warm.memory + (8 << 20) + crashes * 16 * 1024, "{warm:?} {end:?}");
}

/// Counts of the process.
#[derive(Debug)]
struct Resources {
    threads: usize,
    descriptors: usize,
    mappings: usize,
    /// Bytes of private memory.
    memory: usize,
}

impl Resources {
    fn now() -> Self {
        let count = |path: &str| std::fs::read_dir(path).unwrap().count();
        let text = |path: &str| std::fs::read_to_string(path).unwrap();
        let of = |line: &str| line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap();
        let all = text("/proc/self/smaps_rollup");
        let private = all.lines().filter(|line| line.starts_with("Private_"));
        Self {
            threads: count("/proc/self/task"),
            descriptors: count("/proc/self/fd"),
            mappings: text("/proc/self/maps").lines().count(),
            memory: private.map(of).sum::<usize>() << 10,
        }
    }
}
