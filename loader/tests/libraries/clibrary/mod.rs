//! Each domain has its own copy of the state that the C library keeps for a program.

mod costs;
mod forks;
mod log;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use hydrozoa_loader::{Library, current, testing};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::{Workshop, function};

use crate::replicas::{domains, open_in};

const SOURCE: &str = concat!(include_str!("databases.c"), include_str!("cases.c"));

/// glibc's functions and variables with such state, and statements about each from its manual pages, manual or sources.
const FUNCTIONS: &str = include_str!("functions.txt");

/// Names with a test of their own, or without one: each with the reason.
const ELSEWHERE: [(&str, &str); 11] = [
    ("setlocale localeconv", "`locale.rs`"),
    ("setenv unsetenv putenv clearenv", "`environment.rs`"),
    ("pthread_key_create pthread_key_delete pthread_getspecific pthread_setspecific", "`keys.rs`"),
    ("tss_create tss_delete tss_get tss_set", "`keys.rs`"),
    ("syslog __syslog_chk vsyslog __vsyslog_chk openlog closelog setlogmask", "`log.rs`"),
    ("wait waitpid wait3 wait4 waitid forkpty", "`children.rs`"),
    ("fcntl fcntl64 lockf lockf64", "`record_locks.rs`"),
    ("mkstemp openpty", "`descriptors.rs`"),
    ("login logout logwtmp", "they write the machine's own files"),
    ("getpass", "it asks at a terminal"),
    ("__signgam", "another name of `signgam`"),
];

type Wait = extern "C" fn();

/// The cases, in a domain or in the process.
struct Cases {
    count: extern "C" fn() -> c_int,
    name: extern "C" fn(c_int) -> *const c_char,
    functions: extern "C" fn(c_int) -> *const c_char,
    run: extern "C" fn(c_int, c_int, Wait, *mut c_char, usize),
}

impl Cases {
    fn in_domain(library: &Library) -> Cases {
        Cases::of(|name| library.symbol(name).unwrap())
    }

    /// As in a program that is alone in its process: by the system's loader.
    fn in_process(path: &Path) -> Cases {
        let symbols = in_process(path);
        Cases::of(symbols)
    }

    fn of(symbol: impl Fn(&str) -> *const c_void) -> Cases {
        // SAFETY: the source declares them so.
        unsafe {
            Cases {
                count: cast(symbol("count")),
                name: cast(symbol("name")),
                functions: cast(symbol("functions")),
                run: cast(symbol("run")),
            }
        }
    }

    /// The results that program `me` gets.
    fn run(&self, case: c_int, me: c_int, wait: Wait) -> String {
        let mut text = vec![0u8; 1 << 16];
        (self.run)(case, me, wait, text.as_mut_ptr().cast(), text.len());
        CStr::from_bytes_until_nul(&text).unwrap().to_string_lossy().into_owned()
    }

    fn text(&self, of: extern "C" fn(c_int) -> *const c_char, case: c_int) -> &str {
        // SAFETY: a constant of the library.
        unsafe { CStr::from_ptr(of(case)) }.to_str().unwrap()
    }
}

/// The symbols of a library that the system's loader opens. It stays open.
fn in_process(path: &Path) -> impl Fn(&str) -> *const c_void {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a library of the test's.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null());
    move |name| {
        let name = CString::new(name).unwrap();
        // SAFETY: the handle is open.
        let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
        assert!(!symbol.is_null(), "{name:?}");
        symbol
    }
}

/// # Safety
/// `F` is the type of a pointer to the function at `address`.
unsafe fn cast<F: Copy>(address: *const c_void) -> F {
    assert_eq!(size_of::<F>(), size_of_val(&address));
    // SAFETY: the caller's promise.
    unsafe { std::mem::transmute_copy(&address) }
}

extern "C" fn do_not_wait() {}

/// The number of programs that have reached the meeting point, and how often all have.
static MEETING: (Mutex<(usize, usize)>, Condvar) = (Mutex::new((0, 0)), Condvar::new());

/// Waits until three programs are here.
extern "C" fn meet() {
    let (state, changed) = &MEETING;
    let mut state = state.lock().unwrap();
    state.0 += 1;
    if state.0 == 3 {
        *state = (0, state.1 + 1);
        changed.notify_all();
        return;
    }
    let round = state.1;
    let patience = Duration::from_secs(20);
    let waited = changed.wait_timeout_while(state, patience, |now| now.1 == round);
    assert!(!waited.unwrap().1.timed_out(), "the other programs of the case do not come");
}

/// A catalog (GNU gettext, "MO Files") in which `word` and `words` have this translation, in an encoding of its own.
fn catalog(translation: &str) -> Vec<u8> {
    let entries = [
        (
            "",
            "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=n != 1;\n"
                .to_owned(),
        ),
        ("word", translation.to_owned()),
    ];
    let mut words = vec![0x9504_12de_u32, 0, 2, 28, 28 + 16, 0, 28 + 32];
    let mut texts = Vec::new();
    let first = 28 + 32;
    let mut place = |text: &str| {
        let at = [text.len() as u32, (first + texts.len()) as u32];
        texts.extend_from_slice(text.as_bytes());
        texts.push(0);
        at
    };
    let keys = entries.each_ref().map(|(key, _)| place(key));
    let values = entries.each_ref().map(|(_, value)| place(value));
    words.extend(keys.iter().chain(&values).flatten());
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(texts);
    bytes
}

/// Makes the files that the cases read, and the environment by which they find them.
fn prepare(folder: &Path) {
    for me in 0..3 {
        let messages = folder.join(format!("{me}/xx/LC_MESSAGES"));
        std::fs::create_dir_all(&messages).unwrap();
        for name in [format!("own{me}"), "shared".into()] {
            let translation = format!("{name} of {me} \u{e4}");
            std::fs::write(messages.join(name + ".mo"), catalog(&translation)).unwrap();
        }
    }
    std::fs::write(folder.join("dates"), "%Y-%m-%d\n").unwrap();
    let set = |name: &CStr, value: &Path| {
        let value = CString::new(value.to_str().unwrap()).unwrap();
        // SAFETY: the process has no other thread that uses the environment.
        assert_eq!(unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) }, 0);
    };
    set(c"CASES", folder);
    set(c"DATEMSK", &folder.join("dates"));
    set(c"LANGUAGE", Path::new("xx"));
}

#[test]
fn three_domains_at_once_get_what_a_program_alone_gets() {
    alone(PATIENCE, || {
        let shop = Workshop::new("c-library");
        let path = shop.build("libcases.so", SOURCE, &["-lm"]);
        prepare(&shop.path(""));
        let plain = Cases::in_process(&path);
        // HYDROZOA_TEST_CASE selects one.
        let selected = std::env::var("HYDROZOA_TEST_CASE").ok();
        let is_meant = |case: &c_int| {
            selected.as_deref().is_none_or(|name| name == plain.text(plain.name, *case))
        };
        let cases: Vec<c_int> = (0..(plain.count)()).filter(is_meant).collect();
        let alone = |case| [0, 1, 2].map(|me| plain.run(case, me, do_not_wait));
        let expected: Vec<[String; 3]> = cases.iter().copied().map(alone).collect();

        let domains = domains(3);
        let libraries = open_in(&domains, &path);
        let mut wrong = BTreeMap::new();
        for (case, expected) in cases.into_iter().zip(&expected) {
            let round = |wait: Wait, count: usize| {
                thread::scope(|scope| {
                    let threads = [0, 1, 2].map(|me: usize| {
                        let (domain, library) = (&domains[me], &libraries[me]);
                        scope.spawn(move || {
                            // SAFETY: the thread runs code of the domain while the mark is there.
                            let _inside = unsafe { current::enter(domain.id()) };
                            let own = Cases::in_domain(library);
                            let one = || own.run(case, me as c_int, wait);
                            (0..count).map(|_| one()).collect::<Vec<_>>()
                        })
                    });
                    threads.map(|thread| thread.join().unwrap())
                })
            };
            for (wait, count) in [(meet as Wait, 2), (do_not_wait, 20)] {
                let got = round(wait, count);
                for me in 0..3 {
                    let expected = &expected[me];
                    if let Some(got) = got[me].iter().find(|got| *got != expected) {
                        let name = plain.text(plain.name, case).to_owned();
                        wrong.entry(name).or_insert(format!("{got:?} and not {expected:?}"));
                    }
                }
            }
        }
        let lines: Vec<_> = wrong.iter().map(|(name, what)| format!("{name}: {what}")).collect();
        assert!(wrong.is_empty(), "{} cases\n{}", wrong.len(), lines.join("\n"));
    });
}

/// The names of a table's row, or of a case.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ')
}

#[test]
fn each_function_of_the_list_has_a_row_of_the_table_and_each_own_one_a_case() {
    let shop = Workshop::new("c-library-names");
    let path = shop.build("libcases.so", SOURCE, &["-lm"]);
    let plain = Cases::in_process(&path);
    let tried: BTreeSet<&str> = (0..(plain.count)())
        .flat_map(|case| names(plain.text(plain.functions, case)).collect::<Vec<_>>())
        .chain(ELSEWHERE.iter().flat_map(|(known, _)| names(known)))
        .collect();
    let table = testing::c_library_names();
    let rows: BTreeMap<&str, bool> = table.iter().copied().collect();
    let mut wrong = Vec::new();
    if rows.len() < table.len() {
        let mut seen = BTreeSet::new();
        let twice = table.iter().filter(|(name, _)| !seen.insert(name));
        wrong.extend(twice.map(|(name, _)| format!("{name} has two rows")));
    }
    for line in FUNCTIONS.lines().filter(|line| !line.starts_with('#')) {
        let (name, _) = line.split_once('\t').expect("a name, a tabulator, and what is said of it");
        if !rows.contains_key(name) {
            wrong.push(format!("{name} of the list has no row"));
        }
    }
    let domain = domains(1).remove(0);
    for (name, is_own) in &rows {
        match (*is_own, tried.contains(name), testing::is_answered(&domain, name)) {
            (true, _, false) => wrong.push(format!("{name} is the C library's own")),
            (true, false, _) => wrong.push(format!("{name} has no case")),
            (false, _, true) => wrong.push(format!("{name} is said to stay as it is")),
            _ => {}
        }
    }
    for name in testing::c_library_answers(&domain) {
        if !rows.contains_key(name) {
            wrong.push(format!("{name} has no row"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_about_the_c_library_is_made_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/c-library.md");
    let page = testing::c_library_page();
    if std::env::var_os("HYDROZOA_TEST_WRITE").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page, "write it anew: HYDROZOA_TEST_WRITE=1 and this test");
}

#[test]
fn a_function_that_a_library_binds_to_itself_stays_its_own() {
    let shop = Workshop::new("c-library-own");
    let source = "int rand(void) { return 7; } int optind = 5; char *strtok(char *a, const char *b) { return a + *b; }
         int run(void) { return rand() + optind + (strtok((char *)0, \"\\1\") == (char *)1); }";
    let path = shop.build("librand.so", source, &["-fno-builtin", "-Wl,-Bsymbolic"]);
    let library = open_in(&domains(1), &path).remove(0);
    assert_eq!(crate::replicas::call(&library, "run"), 13);
}

#[test]
fn dlsym_finds_what_references_bind_to() {
    let shop = Workshop::new("c-library-dlsym");
    let source = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <math.h>
        #include <stdlib.h>
        #include <getopt.h>
        int run(void)
        {
            void *libc = dlopen("libc.so.6", RTLD_LAZY), *libm = dlopen("libm.so.6", RTLD_LAZY);
            void *all = dlopen(NULL, RTLD_LAZY);
            if (dlsym(libc, "rand") != (void *)rand || dlsym(all, "rand") != (void *)rand) return __LINE__;
            if (dlsym(RTLD_DEFAULT, "rand") != (void *)rand || dlsym(RTLD_NEXT, "rand") != (void *)rand) return __LINE__;
            if (dlsym(libc, "optind") != (void *)&optind || dlsym(libm, "signgam") != (void *)&signgam) return __LINE__;
        #ifdef __x86_64__
            const char *first_version = "GLIBC_2.2.5";
        #else
            const char *first_version = "GLIBC_2.17";
        #endif
            if (dlvsym(libc, "rand", first_version) != (void *)rand) return __LINE__;
            srand(3);
            int first = rand();
            ((void (*)(unsigned))dlsym(all, "srand"))(3);
            return ((int (*)(void))dlsym(all, "rand"))() == first ? 0 : __LINE__;
        }"#;
    let path = shop.build("libasks.so", source, &["-lm"]);
    let libraries = open_in(&domains(2), &path);
    for library in &libraries {
        assert_eq!(crate::replicas::call(library, "run"), 0, "the line of the source");
    }
    // SAFETY: the addresses are compared alone.
    let of = |library: &Library| unsafe { function::<*const ()>(library, "run") };
    assert_ne!(of(&libraries[0]), of(&libraries[1]));
}
