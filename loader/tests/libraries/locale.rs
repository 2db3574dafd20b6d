//! The locale of domains: each has its own once it sets one, and the process and other threads keep theirs.

use std::ffi::{CStr, CString, OsString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::thread;

use crate::replicas::{call, domains};
use hydrozoa_loader::{Domain, Library, Loader, OpenFlags, current};
use hydrozoa_testkit::alone::{PATIENCE, alone_with};
use hydrozoa_testkit::libraries::{Workshop, function, open};

/// A locale that writes numbers and money with commas. Its name is `comma`.
const COMMA: &str = r#"comment_char %
escape_char /
LC_NUMERIC
decimal_point ","
thousands_sep "."
grouping 3;3
END LC_NUMERIC
LC_MONETARY
int_curr_symbol "EUR "
currency_symbol "E"
mon_decimal_point ","
mon_thousands_sep "."
mon_grouping 3;3
positive_sign ""
negative_sign "-"
int_frac_digits 2
frac_digits 3
p_cs_precedes 0
p_sep_by_space 1
n_cs_precedes 0
n_sep_by_space 1
p_sign_posn 1
n_sign_posn 1
END LC_MONETARY
"#;

/// Code that prints and reads a number, names its locale and compares the conventions.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)
const char *set(int category, const char *name) { return setlocale(category, name); }
int names_commas(void) { return setenv("LC_NUMERIC", "comma", 1); }
int names_nothing(void) { return unsetenv("LC_NUMERIC"); }
int clears(void) { return clearenv(); }
/* 1 if numbers have commas, 0 if they have points, -1 if printing, reading and conventions differ. */
int commas(void)
{
    char text[16];
    snprintf(text, sizeof text, "%.1f", 2.5);
    char point = text[1];
    if (strtod(text, NULL) != 2.5 || *nl_langinfo(RADIXCHAR) != point || *localeconv()->decimal_point != point)
        return -1;
    return point == ',' ? 1 : point == '.' ? 0 : -1;
}
static void *in_thread(void *result) { *(int *)result = commas(); return NULL; }
int commas_in_new_thread(void)
{
    pthread_t thread;
    int result = -2;
    if (pthread_create(&thread, NULL, in_thread, &result) || pthread_join(thread, NULL))
        return -3;
    return result;
}
static pthread_barrier_t barrier;
static pthread_t waiting;
static int seen;
static void *wait_and_look(void *unused)
{
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    seen = commas();
    return NULL;
}
int start(void)
{
    pthread_barrier_init(&barrier, NULL, 2);
    int status = pthread_create(&waiting, NULL, wait_and_look, NULL);
    pthread_barrier_wait(&barrier);
    return status;
}
int finish(void)
{
    pthread_barrier_wait(&barrier);
    pthread_join(waiting, NULL);
    return seen;
}
int names(void)
{
    CHECK(!strcmp(setlocale(LC_ALL, "C"), "C") && !strcmp(setlocale(LC_ALL, "POSIX"), "C"));
    CHECK(!strcmp(setlocale(LC_NUMERIC, "comma"), "comma"));
    const char *mixed = "LC_CTYPE=C;LC_NUMERIC=comma;LC_TIME=C;LC_COLLATE=C;LC_MONETARY=C;LC_MESSAGES=C;"
        "LC_PAPER=C;LC_NAME=C;LC_ADDRESS=C;LC_TELEPHONE=C;LC_MEASUREMENT=C;LC_IDENTIFICATION=C";
    CHECK(!strcmp(setlocale(LC_ALL, NULL), mixed) && !strcmp(setlocale(LC_NUMERIC, NULL), "comma"));
    CHECK(!strcmp(setlocale(LC_MONETARY, NULL), "C") && commas() == 1);
    CHECK(!setlocale(LC_NUMERIC, "absent") && errno == ENOENT && commas() == 1);
    errno = 0;
    CHECK(!setlocale(99, "C") && errno == EINVAL && !setlocale(99, NULL));
    CHECK(!setlocale(LC_ALL, "LC_CTYPE=C;LC_NUMERIC=C") && !setlocale(LC_ALL, "LC_ODD=C;LC_NUMERIC=C"));
    CHECK(!strcmp(setlocale(LC_ALL, "C"), "C") && commas() == 0);
    CHECK(!strcmp(setlocale(LC_ALL, mixed), mixed) && commas() == 1);
    return 0;
}
int conventions(void)
{
    CHECK(setlocale(LC_ALL, "C"));
    struct lconv *is = localeconv();
    CHECK(is->frac_digits == CHAR_MAX && is->int_n_sign_posn == CHAR_MAX && !*is->grouping && !*is->mon_grouping);
    CHECK(setlocale(LC_MONETARY, "comma") && setlocale(LC_NUMERIC, "comma") && localeconv() == is);
    CHECK(!strcmp(is->decimal_point, ",") && !strcmp(is->thousands_sep, ".") && !strcmp(is->grouping, "\3\3"));
    CHECK(!strcmp(is->int_curr_symbol, "EUR ") && !strcmp(is->currency_symbol, "E"));
    CHECK(!strcmp(is->mon_decimal_point, ",") && !strcmp(is->mon_thousands_sep, "."));
    CHECK(!strcmp(is->mon_grouping, "\3\3") && !*is->positive_sign && !strcmp(is->negative_sign, "-"));
    CHECK(is->int_frac_digits == 2 && is->frac_digits == 3 && !is->p_cs_precedes && is->p_sep_by_space == 1);
    CHECK(!is->n_cs_precedes && is->n_sep_by_space == 1 && is->p_sign_posn == 1 && is->n_sign_posn == 1);
    return 0;
}
int found(void)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY);
    char *(*own)(int, const char *) = dlsym(libc, "setlocale");
    CHECK(own == setlocale && own == dlsym(RTLD_NEXT, "setlocale") && own == dlsym(RTLD_DEFAULT, "setlocale"));
    CHECK(dlsym(libc, "localeconv") == (void *)localeconv);
    return 0;
}
"#;

/// The library in a domain.
#[derive(Debug)]
struct Own {
    domain: Domain,
    library: Library,
}

fn open_in(count: usize, path: &Path) -> Vec<Own> {
    let open =
        |domain: Domain| Own { library: open(&domain, path, OpenFlags::NOW).unwrap(), domain };
    domains(count).into_iter().map(open).collect()
}

/// The library, and the settings that make the C library find the locale `comma`.
struct Fixture {
    library: PathBuf,
    variables: [(&'static str, OsString); 1],
    _shop: Workshop,
}

impl Fixture {
    fn new(test: &str) -> Fixture {
        let shop = Workshop::new(&format!("locale-{test}"));
        let (source, all) = (shop.path("comma.src"), shop.path("all"));
        std::fs::write(&source, COMMA).unwrap();
        // It warns of the categories that the source lacks, and says so by its status.
        let mut command = Command::new("localedef");
        let made = command.arg("-c").arg("-i").args([&source, &all]).output().unwrap();
        let locale = shop.path("locales/comma");
        std::fs::create_dir_all(&locale).unwrap();
        for category in ["LC_NUMERIC", "LC_MONETARY"] {
            let file = all.join(category);
            assert!(file.exists(), "{}", String::from_utf8_lossy(&made.stderr));
            std::fs::copy(file, locale.join(category)).unwrap();
        }
        let library = shop.build("liblocale.so", SOURCE, &["-pthread"]);
        let variables = [("LOCPATH", shop.path("locales").into_os_string())];
        Fixture { library, variables, _shop: shop }
    }
}

/// Calls the library's function with its domain marked, as a host does.
fn inside(own: &Own, name: &str) -> c_int {
    // SAFETY: the thread runs code of the domain while the mark is there.
    let _inside = unsafe { current::enter(own.domain.id()) };
    call(&own.library, name)
}

fn set(own: &Own, category: c_int, name: Option<&CStr>) -> String {
    // SAFETY: the library declares it so.
    let set: extern "C-unwind" fn(c_int, *const c_char) -> *const c_char =
        unsafe { function(&own.library, "set") };
    // SAFETY: the thread runs code of the domain while the mark is there.
    let _inside = unsafe { current::enter(own.domain.id()) };
    let result = set(category, name.map_or(std::ptr::null(), CStr::as_ptr));
    assert!(!result.is_null(), "{name:?}");
    // SAFETY: setlocale returns a string.
    unsafe { CStr::from_ptr(result) }.to_str().unwrap().to_owned()
}

/// Whether the process writes numbers with commas, on the calling thread.
fn process_has_commas() -> bool {
    let mut text = [0; 16];
    // SAFETY: a buffer of that size, and a number.
    unsafe { libc::snprintf(text.as_mut_ptr(), text.len(), c"%.1f".as_ptr(), 2.5) };
    text[1] == b',' as c_char
}

#[test]
fn what_one_domain_sets_no_other_one_has_and_the_process_neither() {
    let place = Fixture::new("own");
    alone_with(PATIENCE, &place.variables, || {
        let [first, second] = open_in(2, &place.library).try_into().unwrap();
        assert_eq!([inside(&first, "commas"), inside(&second, "commas")], [0, 0]);
        assert_eq!(set(&first, libc::LC_NUMERIC, Some(c"comma")), "comma");
        assert_eq!([inside(&first, "commas"), inside(&second, "commas")], [1, 0]);
        assert_eq!(set(&second, libc::LC_NUMERIC, None), "C");
        assert!(!process_has_commas());
        for _ in 0..2 {
            // Threads of the program and of the libraries.
            thread::scope(|scope| {
                scope.spawn(|| assert_eq!(inside(&first, "commas"), 1));
                scope.spawn(|| assert_eq!(inside(&second, "commas"), 0));
                scope.spawn(|| assert!(!process_has_commas()));
            });
            assert_eq!(inside(&first, "commas_in_new_thread"), 1);
            assert_eq!(inside(&second, "commas_in_new_thread"), 0);
            // The second one has its own now, of the same names.
            assert_eq!(set(&second, libc::LC_NUMERIC, Some(c"C")), "C");
        }
    });
}

#[test]
fn a_domain_has_the_locale_of_the_process_until_it_sets_one() {
    let place = Fixture::new("process");
    alone_with(PATIENCE, &place.variables, || {
        let [first, second] = open_in(2, &place.library).try_into().unwrap();
        // SAFETY: no other thread of this process uses the locale.
        let status = unsafe { libc::setlocale(libc::LC_NUMERIC, c"comma".as_ptr()) };
        assert!(!status.is_null());
        assert_eq!([inside(&first, "commas"), inside(&second, "commas")], [1, 1]);
        // The process's locale is nobody's own.
        assert_eq!(set(&second, libc::LC_NUMERIC, Some(c"comma")), "comma");
        // Other categories stay.
        assert_eq!(set(&first, libc::LC_MONETARY, Some(c"comma")), "comma");
        assert_eq!(inside(&first, "commas"), 1);
        // SAFETY: as above.
        unsafe { libc::setlocale(libc::LC_NUMERIC, c"C".as_ptr()) };
        assert_eq!([inside(&first, "commas"), inside(&second, "commas")], [1, 0]);
    });
}

#[test]
fn threads_that_a_domain_has_created_see_what_another_one_sets() {
    let place = Fixture::new("threads");
    alone_with(PATIENCE, &place.variables, || {
        let [library, other] = &open_in(2, &place.library)[..] else { unreachable!() };
        assert_eq!(inside(library, "start"), 0);
        // Visits do not change what the created thread uses.
        set(other, libc::LC_NUMERIC, Some(c"C"));
        set(library, libc::LC_NUMERIC, Some(c"comma"));
        assert_eq!(inside(library, "finish"), 1);
    });
}

#[test]
fn a_thread_of_the_program_has_its_own_locale_again_after_a_visit() {
    let place = Fixture::new("visit");
    alone_with(PATIENCE, &place.variables, || {
        let [first, second] = open_in(2, &place.library).try_into().unwrap();
        set(&first, libc::LC_NUMERIC, Some(c"comma"));
        set(&first, libc::LC_NUMERIC, Some(c"C"));
        // SAFETY: a locale of these names is there, and stays until the thread uses the process's again.
        unsafe {
            let mask = libc::LC_NUMERIC_MASK;
            let own = libc::newlocale(mask, c"comma".as_ptr(), std::ptr::null_mut());
            assert!(!own.is_null());
            let before = libc::uselocale(own);
            assert_eq!(inside(&first, "commas"), 0);
            assert!(process_has_commas());
            // A visit from inside of a visit, and back.
            let _in_first = current::enter(first.domain.id());
            assert_eq!(call(&first.library, "commas"), 0);
            {
                let _in_second = current::enter(second.domain.id());
                assert_eq!(call(&second.library, "commas"), 1);
            }
            assert_eq!(call(&first.library, "commas"), 0);
            drop(_in_first);
            assert!(process_has_commas());
            libc::uselocale(before);
            libc::freelocale(own);
        }
        assert_eq!(inside(&first, "commas"), 0);
    });
}

#[test]
fn names_conventions_and_errors_are_those_of_the_c_library() {
    let place = Fixture::new("names");
    alone_with(PATIENCE, &place.variables, || {
        for library in open_in(3, &place.library) {
            for part in ["found", "names", "conventions"] {
                assert_eq!(inside(&library, part), 0, "the line of the source that does not hold");
            }
        }
        assert!(!process_has_commas());
    });
}

#[test]
fn the_empty_name_means_the_environment_of_the_domain() {
    let place = Fixture::new("environment");
    alone_with(PATIENCE, &place.variables, || {
        let loader = Loader::builder().build().unwrap();
        let names = |entries: &[&str]| {
            let entries = entries.iter().map(|entry| CString::new(*entry).unwrap());
            let domain = loader.domain("own").environment(entries).build().unwrap();
            let library = open(&domain, &place.library, OpenFlags::NOW).unwrap();
            let own = Own { domain, library };
            let numbers = set(&own, libc::LC_NUMERIC, Some(c""));
            (numbers, set(&own, libc::LC_MONETARY, Some(c"")))
        };
        let two = |numbers: &str, money: &str| (numbers.to_owned(), money.to_owned());
        assert_eq!(names(&["LC_NUMERIC=comma"]), two("comma", "C"));
        assert_eq!(names(&["LC_NUMERIC=comma", "LC_ALL=C"]), two("C", "C"));
        assert_eq!(names(&["LC_ALL=", "LC_NUMERIC=", "LC_MONETARY=comma"]), two("C", "comma"));
        assert_eq!(names(&[]), two("C", "C"));
    });
}

#[test]
fn what_one_domain_makes_of_the_variables_of_locales_no_other_one_goes_by() {
    let place = Fixture::new("variables");
    alone_with(PATIENCE, &place.variables, || {
        let process = |name| {
            // SAFETY: no other thread of this process uses the environment.
            unsafe { libc::setenv(c"LC_NUMERIC".as_ptr(), name, 1) };
        };
        let numbers = |own| set(own, libc::LC_NUMERIC, Some(c""));
        process(c"C".as_ptr());
        // SAFETY: as above.
        unsafe { libc::unsetenv(c"LANG".as_ptr()) };
        let [first, second] = open_in(2, &place.library).try_into().unwrap();
        assert_eq!(inside(&first, "names_commas"), 0);
        assert_eq!([numbers(&first), numbers(&second)], ["comma", "C"]);
        assert_eq!(std::env::var("LC_NUMERIC").unwrap(), "comma");
        assert_eq!(inside(&second, "names_nothing"), 0);
        assert_eq!([numbers(&first), numbers(&second)], ["comma", "C"]);
        // A later change by the process counts for all.
        process(c"comma".as_ptr());
        assert_eq!([numbers(&first), numbers(&second)], ["comma", "comma"]);
        assert_eq!(inside(&second, "clears"), 0);
        assert_eq!([numbers(&first), numbers(&second)], ["comma", "C"]);
        assert!(std::env::var("LC_NUMERIC").is_err());
    });
}

#[test]
fn domains_set_locales_at_once() {
    let place = Fixture::new("at-once");
    alone_with(PATIENCE, &place.variables, || {
        let libraries = open_in(4, &place.library);
        let barrier = Barrier::new(libraries.len());
        thread::scope(|scope| {
            for (index, library) in libraries.iter().enumerate() {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    for round in 0..2000 {
                        let commas = (round + index) % 2;
                        let name = [c"C", c"comma"][commas];
                        set(library, libc::LC_NUMERIC, Some(name));
                        assert_eq!(inside(library, "commas"), commas as c_int);
                    }
                });
            }
        });
    });
}

#[test]
fn a_new_domain_has_nothing_of_the_locale_of_one_that_has_ended() {
    let place = Fixture::new("ended");
    alone_with(PATIENCE, &place.variables, || {
        for _ in 0..3 {
            let [own] = open_in(1, &place.library).try_into().unwrap();
            assert_eq!([inside(&own, "commas_in_new_thread"), inside(&own, "commas")], [0, 0]);
            set(&own, libc::LC_NUMERIC, Some(c"comma"));
            assert_eq!([inside(&own, "commas_in_new_thread"), inside(&own, "commas")], [1, 1]);
            // SAFETY: nothing of the library is in use, and its thread has ended.
            unsafe { own.domain.close() };
        }
        assert!(!process_has_commas());
    });
}
