//! Forks while other threads load, plan, look up and throw.

use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use hydrozoa_loader::{Domain, Interposition, Library, Loader, OpenFlags};
use hydrozoa_testkit::alone::{alone_with, is_alone};
use hydrozoa_testkit::libraries::{Workshop, function, open};

use crate::rounds::rounds;

/// The exit status of a child whose attempts all succeeded.
const DONE: c_int = 42;

/// Seconds that a child may take on a busy machine. It has little to do.
const PATIENCE: u32 = 60;

/// Children of one process. Its threads make images meanwhile, which live as long as the process.
const BATCH: u64 = 300;

/// The number of forks after which one of the threads makes an image.
const FORKS_PER_IMAGE: u64 = 5;

/// C++: thread-local data, a constructor, and functions that look up and throw.
const SOURCE: &str = r#"
    #include <dlfcn.h>
    #include <stdexcept>
    #include <string>
    #ifdef WITH_DESTRUCTOR
    struct Text {
        std::string value;
        Text() : value("a text that is longer than what a string holds itself") {}
        ~Text() { value.clear(); }
    };
    static Text text;
    #else
    static struct { const char *value; } text;
    __attribute__((constructor)) static void begin() { text.value = "a text"; }
    #endif
    static thread_local int local = 30;
    extern "C" int thrown(int value)
    {
        try {
            throw std::runtime_error(text.value);
        } catch (const std::exception &error) {
            return std::string(text.value) == error.what() ? value + local : -1;
        }
    }
    extern "C" int looked_up(const char *name)
    {
        Dl_info info;
        if (dlsym(RTLD_DEFAULT, "nobody_at_all") || !dlerror() || !dladdr((void *)thrown, &info))
            return -1;
        void *found = dlsym(RTLD_DEFAULT, name);
        return found && dladdr(found, &info) ? 1 : -1;
    }
"#;

/// The environment variable that names the directory with the built libraries.
const DIRECTORY: &str = "HYDROZOA_TEST_DIRECTORY";

struct Scene {
    loader: Loader,
    /// The domain that all threads and the children load into.
    shared: Domain,
    /// The library that threads load again and again. It registers no exit handlers: glibc locks its list of
    /// them while it calls or removes those of a library, and a fork leaves the list locked
    /// (stdlib/cxa_finalize.c).
    known: PathBuf,
    /// The library that a child loads. It is new to the child.
    new: PathBuf,
    /// The bytes that threads make new images of.
    bytes: Vec<u8>,
    stop: AtomicBool,
    forks: AtomicU64,
}

impl Scene {
    fn build(shop: &Workshop) {
        shop.build("libknown++.so", SOURCE, &["-nostartfiles"]);
        shop.build("libchild++.so", SOURCE, &["-DWITH_DESTRUCTOR"]);
    }

    fn new() -> Scene {
        let directory = PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
        let new = directory.join("libchild++.so");
        let loader = Loader::builder().build().unwrap();
        let shared = loader.domain("shared").build().unwrap();
        let known = directory.join("libknown++.so");
        // A library that the system's loader is loading at the time of a fork is half loaded in the child, as
        // in any program. From here on that loader has nothing to load.
        Scene::use_of(&open(&shared, &known, OpenFlags::NOW).unwrap());
        Scene {
            loader,
            shared,
            known,
            bytes: std::fs::read(&new).unwrap(),
            new,
            stop: AtomicBool::new(false),
            forks: AtomicU64::new(0),
        }
    }

    /// Throws, looks up, and uses thread-local data.
    fn use_of(library: &Library) {
        // SAFETY: the library declares them so.
        let (thrown, looked_up): (
            extern "C-unwind" fn(c_int) -> c_int,
            extern "C-unwind" fn(*const c_char) -> c_int,
        ) = unsafe { (function(library, "thrown"), function(library, "looked_up")) };
        assert_eq!(thrown(12), DONE);
        assert_eq!(looked_up(c"malloc".as_ptr()), 1);
        assert!(library.symbol("nobody_at_all").is_err());
    }

    /// The work of a thread until the test stops it. Some of it is never undone, so the thread does it once for
    /// a number of forks: a new image and its plan, and a plan for a domain that interposes another name.
    fn work(&self, thread: usize) {
        let mut made = 0;
        for round in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let is_due = self.forks.load(Ordering::Relaxed) >= made * FORKS_PER_IMAGE;
            let mut builder = self.loader.domain("short");
            if is_due {
                let name = format!("a_name_of_{thread}_{made}");
                // SAFETY: nothing refers to the name.
                builder = builder.interpose(&name, unsafe {
                    Interposition::function(ptr::dangling::<c_void>())
                });
            }
            let domain = builder.build().unwrap();
            Scene::use_of(&open(&domain, &self.known, OpenFlags::NOW).unwrap());
            // SAFETY: nothing of it is used any more.
            unsafe { domain.close() };
            if is_due {
                let name = format!("libnew{thread}-{made}++.so");
                // SAFETY: as of any library that is built here.
                let new = unsafe { self.shared.open_bytes(&name, &self.bytes, OpenFlags::NOW) };
                Scene::use_of(&new.unwrap());
                made += 1;
            }
            if round % 8 == 0 {
                // The first access of a thread to the library's thread-local data.
                let known = open(&self.shared, &self.known, OpenFlags::NOW).unwrap();
                thread::scope(|scope| drop(scope.spawn(|| Scene::use_of(&known))));
            }
        }
    }

    /// Forks a child that loads a library which is new to it, throws, looks up.
    fn child(&self) -> Result<(), String> {
        // SAFETY: the child does what the loader and the C library allow after a fork, and leaves without
        // running code that the parent has registered.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends this process if it hangs.
            unsafe { libc::alarm(PATIENCE) };
            let attempt = || {
                let own = self.loader.domain("the child's").build().unwrap();
                for domain in [&self.shared, &own] {
                    Scene::use_of(&open(domain, &self.new, OpenFlags::NOW).unwrap());
                    Scene::use_of(&open(domain, &self.known, OpenFlags::NOW).unwrap());
                }
            };
            let is_good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt)).is_ok();
            // SAFETY: always.
            unsafe { libc::_exit(if is_good { DONE } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: the status is a valid place, and the child is ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == DONE {
            return Ok(());
        }
        if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGALRM {
            return Err(format!("it hangs: it has not ended after {PATIENCE} s"));
        }
        Err(format!("it ended with {status:#x}"))
    }
}

/// HYDROZOA_TEST_FORKS=200000 in the environment makes it the long run.
#[test]
fn children_load_what_is_new_while_threads_load_plan_look_up_and_throw() {
    let (forks, patience) = rounds("HYDROZOA_TEST_FORKS", BATCH);
    let shop = Workshop::new("forks");
    if !is_alone() {
        Scene::build(&shop);
    }
    for done in (0..forks).step_by(BATCH as usize) {
        let count = BATCH.min(forks - done);
        let variables = [
            (DIRECTORY, shop.path("").into_os_string()),
            ("HYDROZOA_TEST_FORKS", count.to_string().into()),
        ];
        alone_with(patience, &variables, || {
            let scene = Scene::new();
            let outcome = thread::scope(|scope| {
                for thread in 0..4 {
                    let scene = &scene;
                    scope.spawn(move || scene.work(thread));
                }
                let outcome = (0..count).try_for_each(|number| {
                    scene.forks.fetch_add(1, Ordering::Relaxed);
                    scene.child().map_err(|reason| format!("child {number}: {reason}"))
                });
                scene.stop.store(true, Ordering::Relaxed);
                outcome
            });
            outcome.unwrap();
        });
    }
}
