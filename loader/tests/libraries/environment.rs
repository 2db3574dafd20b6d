//! The environment while several domains change it, and the program reads it.

use std::ffi::{CString, c_char, c_int};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::replicas::{call, domains, open_in};
use hydrozoa_loader::{Library, Loader, OpenFlags};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::{Workshop, function, open};

/// Variables that come and go.
const VARIABLES: usize = 1000;

#[test]
fn one_domain_changes_the_environment_while_another_and_the_program_read_it() {
    alone(PATIENCE, || {
        let shop = Workshop::new("environment");
        let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <time.h>
        static const char *name_of(int index)
        {
            static char name[64];
            snprintf(name, sizeof name, "HYDROZOA_GOES_%d", index);
            return name;
        }
        int stay(void) { return setenv("HYDROZOA_STAYS", "1", 1); }
        int come_and_go(void)
        {
            for (int index = 0; index < VARIABLES; index++)
                if (setenv(name_of(index), "a value", 1))
                    return 1;
            for (int index = 0; index < VARIABLES; index++)
                if (unsetenv(name_of(index)) || getenv(name_of(index)))
                    return 2;
            return 0;
        }
        int look(void)
        {
            const char *stays = getenv("HYDROZOA_STAYS");
            tzset();
            return stays && !strcmp(stays, "1") && !getenv("HYDROZOA_ABSENT") ? 0 : 1;
        }
    "#;
        let count = format!("-DVARIABLES={VARIABLES}");
        let library = shop.build("libenvironment.so", source, &[&count]);
        let [writer, reader] = open_in(&domains(2), &library).try_into().unwrap();
        assert_eq!(call(&writer, "stay"), 0);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(call(&reader, "look"), 0);
                }
            });
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(std::env::var_os("HYDROZOA_STAYS").unwrap(), "1");
                    assert!(std::env::var_os("HYDROZOA_ABSENT").is_none());
                }
            });
            for _ in 0..6 {
                assert_eq!(call(&writer, "come_and_go"), 0);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(call(&reader, "look"), 0);
    });
}

#[test]
fn the_functions_of_the_environment_mean_what_posix_and_glibc_say() {
    alone(PATIENCE, || {
        let shop = Workshop::new("environment-meaning");
        let source = r#"
        #include <errno.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        extern char **environ;
        #define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)
        static int is(const char *name, const char *value)
        {
            const char *found = getenv(name);
            return value ? found && !strcmp(found, value) : !found;
        }
        static int refused(int status) { return status == -1 && errno == EINVAL && !(errno = 0); }
        int main_part(void)
        {
            static char own[] = "OWN=first", nameless[] = "=odd", bare[] = "OWN";
            char *assigned[] = { "ASSIGNED=1", "TWICE=1", "TWICE=2", NULL };
            CHECK(!setenv("A", "1", 0) && is("A", "1"));
            CHECK(!setenv("A", "2", 0) && is("A", "1"));
            CHECK(!setenv("A", "2", 1) && is("A", "2"));
            CHECK(!setenv("A", "", 1) && is("A", ""));
            CHECK(!setenv("AB", "x=y", 1) && is("AB", "x=y") && is("A", ""));
            CHECK(refused(setenv("", "1", 1)) && refused(setenv("A=B", "1", 1)));
            CHECK(refused(setenv(NULL, "1", 1)) && refused(unsetenv(NULL)));
            CHECK(refused(unsetenv("")) && refused(unsetenv("A=B")));
            CHECK(!unsetenv("ABSENT") && !unsetenv("A") && is("A", NULL) && is("AB", "x=y"));
            CHECK(!putenv(own) && getenv("OWN") == own + 4);
            own[4] = 'F';
            CHECK(is("OWN", "First") && !putenv(bare) && is("OWN", NULL));
            CHECK(!putenv(nameless) && is("AB", "x=y"));
            environ = assigned;
            CHECK(is("AB", NULL) && !setenv("B", "1", 1) && is("ASSIGNED", "1") && is("B", "1"));
            CHECK(!setenv("TWICE", "3", 1) && is("TWICE", "3") && !unsetenv("TWICE") && is("TWICE", NULL));
            CHECK(assigned[3] == NULL);
            CHECK(!clearenv() && !environ && is("B", NULL) && !unsetenv("B"));
            CHECK(!setenv("C", "1", 1) && is("C", "1") && !strcmp(environ[0], "C=1") && !environ[1]);
            return 0;
        }
    "#;
        let library = shop.build("libmeaning.so", source, &[]);
        let replica = &open_in(&domains(1), &library)[0];
        assert_eq!(call(replica, "main_part"), 0, "the line of the source that does not hold");
        // The program sees a replica's changes, and its children get them.
        assert_eq!(std::env::var("C").unwrap(), "1");
        let printed = Command::new("/usr/bin/env").output().unwrap().stdout;
        assert_eq!(String::from_utf8(printed).unwrap(), "C=1\n");
    });
}

#[test]
fn the_program_and_a_replica_change_the_environment_in_turns() {
    alone(PATIENCE, || {
        let shop = Workshop::new("environment-turns");
        let library = shop.build(
            "libturns.so",
            "#include <stdlib.h>
         int set(const char *name, const char *value) { return setenv(name, value, 1); }
         int unset(const char *name) { return unsetenv(name); }",
            &[],
        );
        let replica = &open_in(&domains(1), &library)[0];
        // SAFETY: the library declares them so.
        let (set, unset): (
            extern "C" fn(*const c_char, *const c_char) -> c_int,
            extern "C" fn(*const c_char) -> c_int,
        ) = unsafe { (function(replica, "set"), function(replica, "unset")) };
        let name = |kind: &str, round: usize| format!("HYDROZOA_{kind}_{round}");
        let text = |text: String| CString::new(text).unwrap();
        for round in 0..500 {
            // SAFETY: no other thread of this process uses the environment.
            unsafe { std::env::set_var(name("HOST", round), "h") };
            assert_eq!(set(text(name("REPLICA", round)).as_ptr(), c"r".as_ptr()), 0);
            if round % 3 == 0 {
                // SAFETY: as above.
                unsafe { std::env::remove_var(name("REPLICA", round)) };
                assert_eq!(unset(text(name("HOST", round)).as_ptr()), 0);
            }
        }
        for round in 0..500 {
            let stays = round % 3 != 0;
            assert_eq!(std::env::var_os(name("HOST", round)).is_some(), stays, "{round}");
            assert_eq!(std::env::var_os(name("REPLICA", round)).is_some(), stays, "{round}");
        }
    });
}

/// Code that keeps an old value of `environ`, and starts programs with it.
const KEEPER: &str = r#"
#define _GNU_SOURCE
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char **kept;
int keep(void) { return (kept = environ) != NULL; }
int is_kept(void) { return kept == environ; }
int has(const char *entry)
{
    int count = 0;
    for (char **each = environ; *each; each++)
        count += !strcmp(*each, entry);
    return count;
}
int set(const char *name, const char *value) { return setenv(name, value, 1); }
int unset(const char *name) { return unsetenv(name); }
int is(const char *name, const char *value) { return getenv(name) && !strcmp(getenv(name), value); }
int started(int along_path, int with_kept)
{
    char *words[] = { "sh", "-c", "exit $STATUS", NULL };
    pid_t child;
    int status = -1;
    char **variables = with_kept ? kept : environ;
    if (along_path ? posix_spawnp(&child, "sh", NULL, NULL, words, variables)
                   : posix_spawn(&child, "/bin/sh", NULL, NULL, words, variables))
        return -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}
"#;

#[test]
fn a_steady_environ_moves_when_its_library_changes_it_and_at_no_other_time() {
    alone(PATIENCE, || {
        let shop = Workshop::new("environment-steady");
        let library = shop.build("libkeeper.so", KEEPER, &["-Wl,-soname,libkeeper.so.1"]);
        let loader = Loader::builder().build().unwrap();
        let open_in = |steady: &str| {
            let domain = loader.domain(steady).steady_environ(steady).build().unwrap();
            open(&domain, &library, OpenFlags::NOW).unwrap()
        };
        // SAFETY: the library declares the functions so.
        let change = |library: &Library, name: &str, value: Option<&str>| unsafe {
            let text = |text: &str| CString::new(text).unwrap();
            let name = text(name);
            match value {
                Some(value) => {
                    let set: extern "C" fn(*const c_char, *const c_char) -> c_int =
                        function(library, "set");
                    set(name.as_ptr(), text(value).as_ptr())
                }
                None => {
                    let unset: extern "C" fn(*const c_char) -> c_int = function(library, "unset");
                    unset(name.as_ptr())
                }
            }
        };
        let has = |library: &Library, entry: &str| {
            // SAFETY: as above.
            let has: extern "C" fn(*const c_char) -> c_int = unsafe { function(library, "has") };
            has(CString::new(entry).unwrap().as_ptr())
        };
        let started = |library: &Library, along_path: c_int, with_kept: c_int| {
            // SAFETY: as above.
            let started: extern "C" fn(c_int, c_int) -> c_int =
                unsafe { function(library, "started") };
            started(along_path, with_kept)
        };
        // SAFETY: no other thread of this process uses the environment.
        unsafe { std::env::set_var("STATUS", "3") };
        let (steady, other) = (open_in("libkeeper.so.1"), open_in("absent.so"));
        for library in [&steady, &other] {
            assert_eq!(call(library, "keep"), 1);
        }
        for index in 0..200 {
            assert_eq!(change(&other, &format!("GOES_{index}"), Some("1")), 0);
            assert_eq!(change(&other, &format!("GOES_{index}"), None), 0);
        }
        assert_eq!([call(&steady, "is_kept"), call(&other, "is_kept")], [1, 0]);
        // Changes by others reach the process's environment, and so that of programs.
        assert_eq!(change(&other, "STATUS", Some("4")), 0);
        assert_eq!(std::env::var("STATUS").unwrap(), "4");
        for along_path in [0, 1] {
            assert_eq!(started(&steady, along_path, 0), 4);
        }
        // Changes by the library itself reach both.
        assert_eq!(change(&steady, "STATUS", Some("5")), 0);
        assert_eq!(change(&steady, "OWN", Some("1")), 0);
        assert_eq!([has(&steady, "STATUS=5"), has(&steady, "OWN=1"), has(&other, "OWN=1")], [1; 3]);
        assert_eq!(started(&steady, 0, 0), 5);
        assert_eq!(change(&steady, "OWN", None), 0);
        assert_eq!([has(&steady, "OWN=1"), has(&other, "OWN=1")], [0; 2]);
        assert!(std::env::var_os("OWN").is_none());
    });
}
