//! The environment of the process, which all interpreters and the application share, and its locale, which is theirs until
//! they set one.

mod pythons;

use std::ffi::CStr;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hydrozoa_testkit::alone::{PATIENCE, alone};
use pythons::{each_pool_alone, pools};

#[test]
fn os_environ_in_one_interpreter_disturbs_nobody() {
    each_pool_alone(3, |pool| {
        let stop = AtomicBool::new(false);
        let run = |index: usize, code: &str| {
            let session = pool.acquire_on(index).unwrap();
            session.eval(code).unwrap().call(()).map(drop).unwrap();
        };
        thread::scope(|scope| {
            for code in [
                "lambda: [__import__('time').tzset() for _ in range(200)]",
                "lambda: [__import__('ctypes').CDLL(None).getenv(b'ABSENT') for _ in range(200)]",
            ]
            .iter()
            .enumerate()
            {
                let (stop, run) = (&stop, &run);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        run(code.0 + 1, code.1);
                    }
                });
            }
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert!(std::env::var_os("HYDROZOA_ABSENT").is_none());
                }
            });
            let come_and_go = "lambda: [
                [os.environ.__setitem__(f'HYDROZOA_GOES_{i}', 'a value') for i in range(1000)]
                and [os.environ.__delitem__(f'HYDROZOA_GOES_{i}') for i in range(1000)]
                for os in [__import__('os')] for _ in range(5)
            ]";
            run(0, come_and_go);
            stop.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn os_environ_means_what_it_means_in_plain_python() {
    alone(PATIENCE, || {
        // The test expects the output that plain python gives.
        let program = r#"
import os, subprocess, sys
def refusal(call, *arguments):
    try:
        call(*arguments)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
shell = lambda text: subprocess.check_output(["/bin/sh", "-c", text], text=True).strip()
name = f"HYDROZOA_{id(os)}"
seen = []
os.environ[name] = "one"
seen.append(shell(f"echo ${name}"))
os.putenv(name, "two")
seen += [os.environ[name], shell(f"echo ${name}")]
os.unsetenv(name)
seen += [os.environ[name], shell(f"echo ${{{name}-unset}}")]
os.environ[name] = ""
seen.append(shell(f"echo ${{{name}-unset}}"))
del os.environ[name]
seen += [name in os.environ, shell(f"echo ${{{name}-unset}}")]
os.environb[b"HYDROZOA_BYTES"] = b"\xff"
seen += [ascii(os.environ["HYDROZOA_BYTES"]), os.getenv("HYDROZOA_ABSENT")]
seen += [refusal(os.putenv, "", "x"), refusal(os.putenv, "a=b", "x"), refusal(os.unsetenv, "")]
seen += [refusal(os.unsetenv, "a=b"), refusal(os.environ.__setitem__, "a\0b", "x")]
seen.append(refusal(os.environ.__delitem__, "HYDROZOA_ABSENT"))
result = repr(seen)
"#;
        for pool in pools(2) {
            let python =
                pool.python().executable().expect("this python has an executable").to_owned();
            let expected = Command::new(python)
                .args(["-c", &format!("{program}\nprint(result)")])
                .output()
                .unwrap();
            let expected = String::from_utf8(expected.stdout).unwrap();
            assert!(expected.contains("OSError") || expected.contains("ValueError"), "{expected}");
            for index in 0..2 {
                let session = pool.acquire_on(index).unwrap();
                let run =
                    session.eval("lambda text: (d := {}, exec(text, d), d['result'])[2]").unwrap();
                let found: String = run.call((program,)).unwrap().extract().unwrap();
                assert_eq!(found, expected.trim());
            }
        }
    });
}

#[test]
fn an_interpreter_starts_programs_while_another_one_changes_the_environment() {
    alone(PATIENCE, || {
        let program = r#"
import os, subprocess, sys
def change(rounds):
    for i in range(rounds):
        os.environ[f'HYDROZOA_GOES_{i % 10}'] = 'a value'
        os.environ.pop(f'HYDROZOA_GOES_{(i + 3) % 10}', None)
def start(rounds):
    # From 3.13 on both may be None.
    variables = None if sys.version_info >= (3, 13) else os.environ
    for _ in range(rounds):
        assert subprocess.run(['true']).returncode == 0
        child = os.posix_spawn('/bin/sh', ['sh', '-c', 'exit $HYDROZOA_STAYS'], variables)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"#;
        // SAFETY: no interpreter reads the environment yet, and no other thread does.
        unsafe { std::env::set_var("HYDROZOA_STAYS", "7") };
        for pool in pools(2) {
            let run = |index: usize, name: &str, rounds: i64| {
                let session = pool.acquire_on(index).unwrap();
                let module = session.run(program, "programs").unwrap();
                module.call_method(name, (rounds,)).map(drop).unwrap();
            };
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        run(1, "change", 1000);
                    }
                });
                run(0, "start", 100);
                over.store(true, Ordering::Relaxed);
            });
        }
    });
}

#[test]
fn what_one_interpreter_sets_of_the_locale_no_other_one_has() {
    alone(PATIENCE, || {
        let program = r#"
import locale, threading
def rounds(name, codeset):
    seen = set()
    def look():
        seen.add((locale.setlocale(locale.LC_CTYPE), locale.nl_langinfo(locale.CODESET)))
    for _ in range(200):
        assert locale.setlocale(locale.LC_CTYPE, name) == name
        look()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == {(name, codeset)}, seen
    try:
        locale.setlocale(locale.LC_ALL, "absent")
    except locale.Error as error:
        return f"{error} {locale.setlocale(locale.LC_NUMERIC)} {locale.localeconv()['decimal_point']}"
"#;
        // SAFETY: asks, and no thread sets the process's.
        let process = || unsafe { CStr::from_ptr(libc::setlocale(libc::LC_ALL, ptr::null())) };
        let before = process().to_owned();
        for pool in pools(3) {
            thread::scope(|scope| {
                let locales = [("C", "ANSI_X3.4-1968"), ("C.UTF-8", "UTF-8")];
                for index in 0..3 {
                    let (pool, (name, codeset)) = (&pool, locales[index % 2]);
                    scope.spawn(move || {
                        let session = pool.acquire_on(index).unwrap();
                        let module = session.run(program, "locales").unwrap();
                        let seen: String = module
                            .call_method("rounds", (name, codeset))
                            .unwrap()
                            .extract()
                            .unwrap();
                        assert_eq!(seen, "unsupported locale setting C .");
                    });
                }
            });
        }
        assert_eq!(process(), &*before);
    });
}
