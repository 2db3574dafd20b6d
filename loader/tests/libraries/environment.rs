//! The environment while several domains change it, and the program reads it.

use std::ffi::{CString, c_char, c_int};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::replicas::{call, domains, open_in};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::{Workshop, function};

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
        // The program sees what a replica has set, and its children get it.
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
