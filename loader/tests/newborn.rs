//! Threads that a replica creates while another library is loaded.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use hydrozoa_loader::{Loader, OpenFlags};
use hydrozoa_testkit::libraries::{Workshop, function, open};

/// Bytes to clear. That takes tens of milliseconds.
const SIZE: usize = 24 << 20;
/// The size of a stack with room for them.
const STACK: usize = 64 << 20;

thread_local! {
    /// The C library clears it for each new thread. It does so after it has copied the initial data of the thread,
    /// and before the kernel knows of the thread. That time is long here.
    static LARGE: UnsafeCell<[u8; SIZE]> = const { UnsafeCell::new([0; SIZE]) };
}

unsafe extern "C" {
    fn pthread_setattr_default_np(attributes: *const libc::pthread_attr_t) -> c_int;
}

type Test = (&'static str, fn());

const TESTS: &[Test] = &[(
    "a_thread_that_is_just_being_created_begins_with_the_data_of_the_load",
    a_thread_that_is_just_being_created_begins_with_the_data_of_the_load,
)];

/// The test runs without the harness, whose threads have no room for such data on their stacks.
fn main() {
    LARGE.with(|large| {
        std::hint::black_box(large.get());
    });
    // SAFETY: the record is initialised before it is used, and both calls take it as it is.
    unsafe {
        let mut attributes = std::mem::zeroed();
        assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
        assert_eq!(libc::pthread_attr_setstacksize(&mut attributes, STACK), 0);
        assert_eq!(pthread_setattr_default_np(&attributes), 0);
    }
    for (name, test) in TESTS {
        test();
        println!("test {name} ... ok");
    }
    // A test that fails ends the program. This line is what the suite counts.
    println!("\ntest result: ok. {} passed; 0 failed; 0 ignored", TESTS.len());
}

fn a_thread_that_is_just_being_created_begins_with_the_data_of_the_load() {
    const LOADS: c_int = 10;
    let shop = Workshop::new("newborn");
    let maker = shop.build(
        "libmaker.so",
        "#include <pthread.h>
         #include <stdint.h>
         static int (*late)(void);
         static volatile int loads;
         static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
         static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
         void loaded(int number, int (*value)(void))
         {
             pthread_mutex_lock(&lock);
             late = value;
             loads = number;
             pthread_cond_broadcast(&changed);
             pthread_mutex_unlock(&lock);
         }
         static void *run(void *number)
         {
             pthread_mutex_lock(&lock);
             while (loads < (int)(intptr_t)number)
                 pthread_cond_wait(&changed, &lock);
             pthread_mutex_unlock(&lock);
             return (void *)(intptr_t)late();
         }
         /* How many threads, of those that are created while it happens, have other data than a load brings. */
         int wrong(int number)
         {
             enum { MOST = 2 };
             pthread_t threads[MOST];
             int wrong = 0, made = 0;
             while (made < MOST && loads < number
                    && !pthread_create(&threads[made], NULL, run, (void *)(intptr_t)number))
                 made++;
             for (int index = 0; index < made; index++) {
                 void *value;
                 pthread_join(threads[index], &value);
                 wrong += (int)(intptr_t)value != 42;
             }
             return wrong;
         }",
        &[],
    );
    let libraries: Vec<PathBuf> = (0..LOADS)
        .map(|number| {
            shop.build(
                &format!("liblate{number}.so"),
                "static volatile __thread int number __attribute__((tls_model(\"initial-exec\"))) = 42;
                 int value(void) { return number; }",
                &[],
            )
        })
        .collect();
    let domain = Loader::builder().build().unwrap().domain("newborn").build().unwrap();
    let maker = open(&domain, &maker, OpenFlags::NOW).unwrap();
    // SAFETY: declared so above.
    let wrong: extern "C" fn(c_int) -> c_int = unsafe { function(&maker, "wrong") };
    // SAFETY: as above.
    let loaded: extern "C" fn(c_int, extern "C" fn() -> c_int) =
        unsafe { function(&maker, "loaded") };
    let mut all = 0;
    for (number, path) in (1..).zip(&libraries) {
        all += thread::scope(|scope| {
            let roomy = thread::Builder::new().stack_size(STACK);
            let (tell, told) = mpsc::channel();
            let make = move || {
                tell.send(()).unwrap();
                wrong(number)
            };
            let making = roomy.spawn_scoped(scope, make).unwrap();
            told.recv().unwrap();
            // Another part of the creation each time.
            thread::sleep(Duration::from_millis(number as u64));
            let library = open(&domain, path, OpenFlags::NOW).unwrap();
            // SAFETY: declared so above.
            loaded(number, unsafe { function(&library, "value") });
            making.join().unwrap()
        });
    }
    assert_eq!(all, 0, "threads of {LOADS} loads have data from before their load");
}
