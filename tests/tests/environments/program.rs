//! The program that runs in each environment. It reports each step by a line on descriptor 3.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hydrozoa::{Builder, Pool};

/// Variables of the program: libpython, the directory for settled memory, streams to close, and system calls to refuse.
pub const LIBRARY: &str = "HYDROZOA_TEST_LIBRARY";
pub const SETTLE: &str = "HYDROZOA_TEST_SETTLE";
pub const CLOSED: &str = "HYDROZOA_TEST_CLOSED";
pub const REFUSED: &str = "HYDROZOA_TEST_REFUSED";
/// Set to have the variables of the environment count that Python reads.
pub const OWN: &str = "HYDROZOA_TEST_OWN";
/// The descriptor of the report.
pub const REPORT: i32 = 3;

/// The steps, as the report names them. All others need the first.
pub const STEPS: [&str; 7] = ["start", "compute", "thread", "print", "settle", "child", "end"];

pub fn run() -> ExitCode {
    // SAFETY: the parent has opened it for this, and nothing else owns it.
    let mut report = unsafe { File::from_raw_fd(REPORT) };
    // SAFETY: a descriptor of this process. Its children need it not.
    unsafe { libc::fcntl(report.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    let variable = |name| std::env::var(name).unwrap_or_default();
    for stream in variable(CLOSED).split(',').filter_map(|one| one.parse().ok()) {
        // SAFETY: the standard library's owner of a standard stream does not mind (std::io).
        unsafe { libc::close(stream) };
    }
    hydrozoa_testkit::refusal::refuse(&variable(REFUSED));
    let mut say = |step: &str, outcome: Result<()>| {
        let text = match outcome {
            Ok(()) => "works".to_owned(),
            Err(error) => error.to_string().replace('\n', " | "),
        };
        // Nobody else hears it.
        let _ = writeln!(report, "{step}: {text}");
    };
    let pool = match start() {
        Ok(pool) => pool,
        Err(error) => {
            say(STEPS[0], Err(error));
            return ExitCode::SUCCESS;
        }
    };
    say(STEPS[0], Ok(()));
    for (step, action) in STEPS[1..].iter().zip([compute, thread, print, settle, child]) {
        say(step, action(&pool));
    }
    say(STEPS[6], pool.close(Duration::from_secs(60)).map_err(Into::into));
    ExitCode::SUCCESS
}

fn start() -> Result<Pool> {
    let mut builder: Builder = Pool::builder().interpreters(2);
    builder = builder.python(PathBuf::from(std::env::var_os(LIBRARY).unwrap_or_default()));
    builder = builder.settle_in(PathBuf::from(std::env::var_os(SETTLE).unwrap_or_default()));
    if std::env::var_os(OWN).is_some() {
        builder = builder.environment(std::env::vars_os());
    }
    Ok(builder.build()?)
}

/// Both interpreters compute at once, on threads of the program, with modules that are files and modules that are libraries.
fn compute(pool: &Pool) -> Result<()> {
    let compute = |index: usize| {
        let session = pool.acquire_on(index)?;
        let code = "import array, json, hashlib\n\
                    total = sum(array.array('i', range(100_000))) + len(json.dumps([1, 2]))\n\
                    digest = hashlib.sha256(b'coral').hexdigest()[:8]";
        let module = session.run(code, "compute.py")?;
        let total: i64 = module.getattr("total")?.extract()?;
        let digest: String = module.getattr("digest")?.extract()?;
        ensure!((total, &*digest) == (4_999_950_006, "f39fd907"), "{total} and {digest}");
        Ok(())
    };
    thread::scope(|scope| {
        let other = thread::Builder::new().spawn_scoped(scope, || compute(1));
        let other = other.context("a thread of the program")?;
        compute(0)?;
        other.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))
    })
}

fn thread(pool: &Pool) -> Result<()> {
    let session = pool.acquire_on(1)?;
    let code = "import threading\nfound = []\n\
                thread = threading.Thread(target=found.append, args=(7,), daemon=False)\n\
                thread.start()\nthread.join()";
    let found: Vec<i64> = session.run(code, "thread.py")?.getattr("found")?.extract()?;
    ensure!(found == [7], "{found:?}");
    Ok(())
}

/// Prints, and reads an input that is at its end.
fn print(pool: &Pool) -> Result<()> {
    let session = pool.acquire_on(0)?;
    let code = "import sys\nprint('printed', flush=True)\nprint('told', file=sys.stderr, flush=True)\n\
                left = sys.stdin.read() if sys.stdin else ''";
    let left: String = session.run(code, "print.py")?.getattr("left")?.extract()?;
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

fn settle(pool: &Pool) -> Result<()> {
    for settled in pool.settle()? {
        ensure!(settled.written > 0, "{settled:?}");
    }
    compute(pool)
}

fn child(pool: &Pool) -> Result<()> {
    let session = pool.acquire_on(1)?;
    let code = "import subprocess\nstatus = subprocess.run(['/bin/sh', '-c', 'exit 7']).returncode";
    let status: i64 = session.run(code, "child.py")?.getattr("status")?.extract()?;
    ensure!(status == 7, "a child has the status {status}");
    Ok(())
}
