//! Processes in which crashes are contained, or not.

mod blocks;
pub mod kinds;

use crate::pythons::pythons;
use hydrozoa::{Error, Function, Object, Pool, Session, on_crash};
use hydrozoa_testkit::libraries::Workshop;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, process, thread};

const KIND: &str = "HYDROZOA_TEST_CONTAINED";
const LIBRARY_PATH: &str = "HYDROZOA_TEST_CONTAINED_LIBRARY";
const MINOR: &str = "HYDROZOA_TEST_CONTAINED_ON";

/// How long a thing may take that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Seconds after which a process ends that hangs.
const MOST: u32 = 100;

/// Such a process prints it once its interpreter has crashed.
const CRASHED: &str = "the interpreter has crashed";

const CODE: &str = include_str!("module.py");
const LIBRARY: &str = include_str!("library.cc");

/// Frames stay as they are written.
const FLAGS: [&str; 3] = ["-fno-stack-protector", "-fno-optimize-sibling-calls", "-fopenmp"];

/// The library, which is built once for all processes.
fn library() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        (LIBRARY, FLAGS).hash(&mut hasher);
        let name = format!("containing-{:x}.so", hasher.finish());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        if !path.exists() {
            let workshop = Workshop::new("containing");
            let own = path.with_extension(process::id().to_string());
            fs::copy(workshop.build("containing++.so", LIBRARY, &FLAGS), &own).unwrap();
            fs::rename(own, &path).unwrap();
        }
        path
    })
}

/// The end of a process.
struct Child {
    status: ExitStatus,
    printed: String,
    errors: String,
}

fn run(kind: &str, minor: u8) -> Child {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["inside", "--exact", "--nocapture"])
        .env(LIBRARY_PATH, library())
        .env(KIND, kind)
        .env(MINOR, minor.to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Child { status: output.status, printed: text(&output.stdout), errors: text(&output.stderr) }
}

/// A process in which a crash is contained, and that ends well.
#[track_caller]
pub fn contained(kind: &str) {
    let Child { status, printed, errors } = run(kind, first_python());
    assert!(status.success(), "{kind}: {status}\n{printed}\n{errors}");
    assert!(!errors.contains("hydrozoa:"), "{kind}:\n{errors}");
}

/// A process in which a crash of a child ends that, for this reason, and then one of its own is contained.
#[track_caller]
pub fn contained_after_child(kind: &str, why: &str) {
    let Child { status, errors, .. } = run(kind, first_python());
    assert!(status.success(), "{kind}: {status}\n{errors}");
    assert_eq!(errors.matches("hydrozoa: ").count(), 1, "{errors}");
    assert!(errors.contains(&format!("not contained: {why}")), "{errors}");
}

/// A process that ends by a signal, of which standard error says this.
#[track_caller]
pub fn ended(kind: &str, signal: i32, words: &[&str]) {
    use std::os::unix::process::ExitStatusExt;
    let Child { status, errors, .. } = run(kind, first_python());
    assert_eq!(status.signal(), Some(signal), "{kind}: {status}\n{errors}");
    for words in words {
        assert_eq!(errors.matches(words).count(), 1, "{kind}: {words}\n{errors}");
    }
}

fn first_python() -> u8 {
    *pythons().keys().next().unwrap()
}

/// Crashes, in a process that was made for it.
pub fn inside() {
    let Ok(kind) = std::env::var(KIND) else { return };
    // SAFETY: core files have no use here.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 });
        libc::alarm(MOST);
    }
    let minor: u8 = std::env::var(MINOR).unwrap().parse().unwrap();
    on_crash(|report| SEEN.store(report.is_contained, Ordering::SeqCst));
    let builder = Pool::builder().interpreters(3).python(&pythons()[&minor]);
    let builder =
        builder.contain_crashes(!kind.starts_with("uncontained:")).replace_crashed(kind != "stays");
    let pool = builder.build().unwrap();
    match &*kind {
        "copies_nothing" => copies_nothing(&pool),
        "stays" => stays(&pool),
        "at_the_end" => at_the_end(&pool),
        "freed_by_the_application" => blocks::freed_by_the_application(&pool),
        "freed_by_another_interpreter" => blocks::freed_by_another_interpreter(&pool),
        "written_before_a_thread_s_end" => blocks::written_before_a_thread_s_end(&pool),
        "freed_after_the_crash" => blocks::freed_after_the_crash(&pool),
        _ => scenario(&pool, kind.trim_start_matches("uncontained:")),
    }
    if SEEN.load(Ordering::SeqCst) {
        println!("{CRASHED}");
        replaced(&pool, 1);
    }
    serves(&pool);
    pool.close(PATIENCE).unwrap();
    assert_eq!(DROPS.load(Ordering::SeqCst), usize::from(kind.starts_with("nested:")));
    assert_eq!(hydrozoa::wait_for_ends(PATIENCE), 0);
}

fn module<'s>(session: &'s Session) -> Object<'s> {
    let library = std::env::var(LIBRARY_PATH).unwrap();
    session.run(&format!("LIBRARY = {library:?}\n{CODE}"), "containing.py").unwrap()
}

/// Whether the program's function has seen a contained crash.
static SEEN: AtomicBool = AtomicBool::new(false);

/// Pages of others can be written as before: the report has the process's memory copied by nobody.
fn copies_nothing(pool: &Pool) {
    let mut pages = vec![1u8; 64 << 20];
    let mut faults = || {
        let before = faults_of_this_thread();
        pages.iter_mut().step_by(4096).for_each(|byte| *byte ^= 1);
        faults_of_this_thread() - before
    };
    faults();
    scenario(pool, "crashes");
    let faults = faults();
    assert!(faults < 100, "{faults} faults for {} pages", (64 << 20) / 4096);
}

fn faults_of_this_thread() -> i64 {
    // SAFETY: zero is a value of every field, and the record is valid.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage.ru_minflt
    }
}

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

/// `PLACE:KIND`, where the place is the application's thread if none is named.
fn scenario(pool: &Pool, kind: &str) {
    let (place, kind) = kind.split_once(':').unwrap_or((kinds::APPLICATION, kind));
    let session = pool.acquire_on(1).unwrap();
    let outcome = match place {
        "application" => with_host(&session).call_method("crash", (kind,)).map(drop),
        "python_thread" => with_host(&session).call_method("on_a_python_thread", (kind,)).map(drop),
        "std_thread" => with_host(&session).call_method("on_a_std_thread", (kind,)).map(drop),
        "nested" => nested(pool, &session, &with_host(&session), kind),
        "waiters" => with_waiters(pool, &with_host(&session), kind),
        "import" => import(&session, kind),
        _ => panic!("there is no place {place}"),
    };
    if !SEEN.load(Ordering::SeqCst) && !matches!(outcome, Err(Error::Crashed { .. })) {
        // An exception, maybe of another thread. Whether it may be so, the parent knows.
        assert!(!session.interpreter().has_crashed());
        return;
    }
    is_report(outcome, kind);
    assert!(session.interpreter().has_crashed() && SEEN.load(Ordering::SeqCst));
    assert!(matches!(session.eval("1"), Err(Error::Crashed { .. })));
}

/// The module, with a function of the application's that crashes.
fn with_host<'s>(session: &'s Session) -> Object<'s> {
    let module = module(session);
    let breaking = Function::new("breaking", |session, _| {
        // SAFETY: none: it faults.
        unsafe { std::ptr::without_provenance_mut::<i32>(8).write_volatile(1) };
        session.eval("None")
    });
    module.setattr("breaking", breaking.make(session).unwrap()).unwrap();
    module
}

/// A value of the application's that Python has. It is dropped although Python does not let go of it.
struct Counted;

static DROPS: AtomicUsize = AtomicUsize::new(0);

impl Drop for Counted {
    fn drop(&mut self) {
        DROPS.fetch_add(1, Ordering::SeqCst);
    }
}

#[track_caller]
fn has_crashed_if_any_has(outcome: hydrozoa::Result<()>) {
    let is_crash = matches!(outcome, Err(Error::Crashed { .. }));
    assert_eq!(is_crash, SEEN.load(Ordering::SeqCst), "{outcome:?}");
}

/// Python of one interpreter calls the host, which calls another interpreter and then the first one, where it crashes.
fn nested(pool: &Pool, session: &Session, module: &Object<'_>, kind: &str) -> hydrozoa::Result<()> {
    let (outer, name) = (pool.acquire_on(0).unwrap(), kind.to_owned());
    let (crashing, weak) = (session.interpreter().downgrade(), pool.downgrade());
    let counted = Counted;
    let inner = Function::new("host", move |own, _| {
        let _counted = &counted;
        let session = crashing.upgrade().unwrap().session();
        let module = session.import("__hydrozoa__.containing")?;
        let answer = weak.upgrade().unwrap().acquire_on(2)?.eval("6 * 7")?.extract::<i64>()?;
        assert_eq!(answer, 42);
        has_crashed_if_any_has(module.call_method("crash", (&*name,)).map(drop));
        own.none()
    });
    module.setattr("host", inner.make(session).unwrap()).unwrap();
    let crashing = session.interpreter().downgrade();
    let host = Function::new("host", move |outer, _| {
        let session = crashing.upgrade().unwrap().session();
        let module = session.import("__hydrozoa__.containing")?;
        has_crashed_if_any_has(module.call_method("calls_the_host", ()).map(drop));
        outer.eval("'came home'")
    });
    let calls = outer.run("def calls(host): return host()", "outer.py").unwrap();
    let came: String =
        calls.call_method("calls", (host.make(&outer).unwrap(),)).unwrap().extract().unwrap();
    assert_eq!(came, "came home");
    session.eval("1").map(drop)
}

/// Other threads are inside at the crash: in Python code, waiting for a lock, and waiting for the GIL.
fn with_waiters(pool: &Pool, module: &Object<'_>, kind: &str) -> hydrozoa::Result<()> {
    module.getattr("threading").unwrap();
    let begun = &AtomicUsize::new(0);
    thread::scope(|scope| {
        let inside: Vec<_> = ["waits", "keeps_busy", "waits", "keeps_busy"]
            .map(|name| {
                scope.spawn(move || {
                    let session = pool.acquire_on(1).unwrap();
                    let module = session.import("__hydrozoa__.containing").unwrap();
                    begun.fetch_add(1, Ordering::SeqCst);
                    let outcome = module.call_method(name, ()).map(drop);
                    is_report(outcome, name);
                })
            })
            .into_iter()
            .collect();
        while begun.load(Ordering::SeqCst) < inside.len() {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(200));
        let outcome = module.call_method("crash", (kind,)).map(drop);
        let begin = Instant::now();
        for one in inside {
            one.join().unwrap();
        }
        assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
        outcome
    })
}

/// A library's constructor crashes, or the code of a module of Python's.
fn import(session: &Session, kind: &str) -> hydrozoa::Result<()> {
    let workshop = Workshop::new(&format!("containment-import-{kind}"));
    let code = if CODE.contains(&format!("\ndef {kind}(")) {
        with_host(session);
        let code = format!("import sys\nsys.modules['__hydrozoa__.containing'].crash({kind:?})");
        fs::write(workshop.path("beginning.py"), code).unwrap();
        format!("import sys; sys.path.insert(0, {:?}); import beginning", workshop.path(""))
    } else {
        let path = workshop.path(&format!("beginning-{kind}"));
        fs::copy(library(), &path).unwrap();
        format!("import ctypes; ctypes.CDLL({path:?})")
    };
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

fn answers(module: &Object<'_>) {
    let answer: i64 = module.call_method("answer", (100,)).unwrap().extract().unwrap();
    assert_eq!(answer, 328_350);
}
