//! Interpreters that do not start: each is an error that names its cause, and the others still work.

mod pythons;

use hydrozoa::{CommandLine, Error, Pool};
use hydrozoa_testkit::alone::alone;
use pythons::{builders, pools, pythons, without_packages};
use std::ffi::{c_int, c_void};
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many more threads this process may make.
static THREADS: AtomicUsize = AtomicUsize::new(usize::MAX);

type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

/// Replaces the C library's function for all code that is linked into this program.
///
/// # Safety
///
/// As pthread_create(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    static REAL: OnceLock<Create> = OnceLock::new();
    let real = REAL.get_or_init(|| {
        // SAFETY: the next definition is the C library's, which has this type.
        unsafe {
            let found = libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr());
            assert!(!found.is_null());
            std::mem::transmute::<*mut c_void, Create>(found)
        }
    });
    let allowed = THREADS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
        usize::MAX => Some(usize::MAX),
        left => left.checked_sub(1),
    });
    match allowed {
        // SAFETY: the caller's arguments.
        Ok(_) => unsafe { real(thread, attributes, start, argument) },
        Err(_) => libc::EAGAIN,
    }
}

fn works(pool: &Pool) {
    for interpreter in pool.interpreters() {
        let sum = interpreter.session().eval("sum(range(10))").unwrap().extract::<i64>();
        assert_eq!(sum.unwrap(), 45);
    }
}

#[test]
fn a_thread_that_the_system_refuses_is_an_error_that_names_the_interpreter() {
    alone(Duration::from_secs(100), || {
        for builder in builders(4) {
            let other = builder.clone().interpreters(1).build().unwrap();
            let mut errors = 0;
            for threads in 0.. {
                THREADS.store(threads, Ordering::SeqCst);
                let built = builder.clone().build();
                THREADS.store(usize::MAX, Ordering::SeqCst);
                works(&other);
                match built {
                    Ok(pool) => {
                        works(&pool);
                        break;
                    }
                    Err(Error::Start { interpreter, message, .. }) => {
                        assert!(interpreter.starts_with("interpreter "), "{interpreter}");
                        assert!(message.contains("thread"), "{message}");
                    }
                    Err(other) => panic!("with {threads} threads: {other}"),
                }
                errors += 1;
            }
            // Four main threads, and the threads that start all interpreters except the first.
            assert_eq!(errors, 7);
            works(&builder.build().unwrap());
        }
    });
}

#[test]
fn an_exception_of_python_as_it_starts_is_told_with_type_and_text() {
    for library in pythons().values() {
        let arguments = ["-X", "tracemalloc=1073741824", "-c", "pass"];
        let command = CommandLine::new(Some(library.to_owned()), None, arguments).unwrap();
        let error = command.run().unwrap_err();
        let Error::Start { interpreter, message, .. } = &error else { panic!("{error}") };
        assert_eq!(interpreter, "python command");
        assert!(message.contains("tracemalloc"), "{message}");
        assert!(message.contains("ValueError: the number of frames must be in range"), "{message}");
    }
}

#[test]
fn an_exception_behind_pythons_start_is_told_with_type_text_and_traceback() {
    for (&minor, library) in pythons() {
        // Python itself starts, but cannot be given our own modules.
        let (venv, packages) = without_packages("starts", minor, library);
        // Not sitecustomize: Debian has one of its own in the standard library.
        fs::write(packages.join("refusing.pth"), "import refusing\n").unwrap();
        fs::write(
            packages.join("refusing.py"),
            "import sys\n\
             class Refusing(list):\n    \
                 def insert(self, index, finder): raise MemoryError\n\
             sys.meta_path = Refusing(sys.meta_path)\n",
        )
        .unwrap();
        let error =
            Pool::builder().interpreters(1).venv(&venv).python(library).build().unwrap_err();
        let Error::Start { interpreter, message, traceback } = &error else { panic!("{error}") };
        assert_eq!((interpreter.as_str(), message.as_str()), ("interpreter 0", "MemoryError"));
        assert_eq!(error.to_string(), "interpreter 0 did not start: MemoryError");
        assert!(traceback.contains("in insert"), "{traceback}");
        assert_eq!(error.traceback(), Some(traceback.as_str()));
    }
    for pool in pools(1) {
        works(&pool);
    }
}
