//! Exit handlers: of domains among several, of libraries that exist once, and of the program.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use hydrozoa_loader::OpenFlags;
use hydrozoa_testkit::alone::alone;
use hydrozoa_testkit::libraries::{Workshop, open};

use crate::replicas::{call, domains, sharing};

/// It exists once. It registers a handler when it is first used.
const ONCE: &str = r#"
#include <stdlib.h>
#include <unistd.h>
static int users;
static void all(void) { write(2, "all ", 4); }
int use(void)
{
    if (!users)
        atexit(all);
    return ++users;
}
"#;

/// Its constructors register `a` and `b`, and use the library above in between.
const OF_MANY: &str = r#"
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <unistd.h>
int use(void);
static char number;
static void say(char which) { char word[] = { which, '0' + number, ' ' }; write(2, word, 3); }
static void a(void) { say('a'); }
static void b(void) { say('b'); }
static void c(void) { say('c'); }
static void e(void) { say('e'); }
static void d(void) { say('d'); atexit(e); }
__attribute__((constructor)) static void begin(void) { atexit(a); number = use(); atexit(b); }
int late(void) { return atexit(c); }
int more(void) { return atexit(d); }
static void with_status(int status, void *which)
{
    char word[] = { *(char *)which, '0' + number, '0' + status, ' ' };
    write(2, word, 4);
}
int status(void) { return on_exit(with_status, "s"); }
"#;

extern "C" fn of_the_program() {
    // SAFETY: two bytes to standard error.
    unsafe { libc::write(2, c"p ".as_ptr().cast(), 2) };
}

/// Builds both, and returns the path of the second.
fn of_many(shop: &Workshop) -> PathBuf {
    shop.build("libonce.so", ONCE, &[]);
    shop.build("libmany.so", OF_MANY, &["-L{dir}", "-lonce", "-Wl,-rpath,$ORIGIN"])
}

/// The standard error of the test `name` in a process of its own, which ends by `exit(5)`.
fn written(name: &str, variable: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(variable, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{text}");
    text
}

#[test]
fn exit_handlers_are_called_last_first_whoever_has_registered_them() {
    let variable = "HYDROZOA_LOADER_EXITS_CHILD";
    if std::env::var_os(variable).is_some() {
        let shop = Workshop::new("exits");
        let path = of_many(&shop);
        let mut domains = sharing(3);
        let open = |place: usize| open(&domains[place], &path, OpenFlags::NOW).unwrap();
        let (first, second, third) = (open(0), open(1), open(2));
        assert_eq!(["late", "status", "more"].map(|name| call(&first, name)), [0; 3]);
        assert_eq!(["late", "status"].map(|name| call(&second, name)), [0; 2]);
        // SAFETY: a function of this program.
        assert_eq!(unsafe { libc::atexit(of_the_program) }, 0);
        assert_eq!(call(&third, "more"), 0);
        drop((first, second, third, shop));
        // SAFETY: no code of its libraries runs, and nothing refers to it any more.
        unsafe { domains.remove(0).close() };
        std::process::exit(5);
    }
    let name = "exits::exit_handlers_are_called_last_first_whoever_has_registered_them";
    let text = written(name, variable);
    // The first domain's when it is closed; then, at the exit, those of the others and of the library that exists once.
    assert!(text.ends_with("d1 e1 s10 c1 b1 a1 d3 e3 p s25 c2 b3 a3 b2 a2 all "), "{text}");
}

#[test]
fn handlers_of_what_exists_once_are_called_after_those_that_a_constructor_registers_later() {
    let variable = "HYDROZOA_LOADER_EXITS_ONCE_CHILD";
    if std::env::var_os(variable).is_some() {
        let shop = Workshop::new("exits-once");
        let path = of_many(&shop);
        let library = open(&sharing(1)[0], &path, OpenFlags::NOW).unwrap();
        drop((library, shop));
        std::process::exit(5);
    }
    let name = "exits::handlers_of_what_exists_once_are_called_after_those_that_a_constructor_registers_later";
    let text = written(name, variable);
    assert!(text.ends_with("b1 a1 all "), "{text}");
}

#[test]
fn what_many_handlers_take_is_little_and_is_given_back() {
    const HANDLERS: usize = 16_000;
    alone(Duration::from_secs(60), || {
        let shop = Workshop::new("exits-many");
        let source = "#include <stdlib.h>\n
            static int called; static void handler(void) { called++; }
            __attribute__((constructor)) static void begin(void) { for (int i = 0; i < 16000; i++) atexit(handler); }
            __attribute__((destructor(101))) static void end(void) { if (called != 16000) abort(); }";
        let path = shop.build("libmany_handlers.so", source, &[]);
        let mut domains = domains(2);
        let close = |domain| {
            // SAFETY: no code of its library runs, and nothing refers to it.
            unsafe { hydrozoa_loader::Domain::close(domain) }
        };
        // The loader makes some things once: here.
        drop(open(&domains[1], &path, OpenFlags::NOW).unwrap());
        close(domains.remove(1));
        let before = allocated();
        drop(open(&domains[0], &path, OpenFlags::NOW).unwrap());
        let taken = allocated() - before;
        assert!((0..HANDLERS as isize * 24).contains(&taken), "{taken} bytes");
        close(domains.remove(0));
        let left = allocated() - before;
        assert!(left < HANDLERS as isize, "{left} bytes are left");
    });
}

/// Bytes that are allocated by malloc.
fn allocated() -> isize {
    // SAFETY: always sound.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as isize
}
