//! Interpreters with environments of their own.

mod pythons;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Command;
use std::sync::Barrier;
use std::thread;

use hydrozoa::{CommandLine, Error, Pool};
use hydrozoa_testkit::alone::{PATIENCE, alone, alone_with};
use pythons::{builders, pythons};

/// The program that all interpreters run at once: its own number, or -1 in the environment of the process.
const PROGRAM: &str = r#"
import ctypes, os, subprocess, sys, threading

libcs = [ctypes.CDLL(None), ctypes.CDLL("libc.so.6")]
for libc in libcs:
    libc.getenv.restype = ctypes.c_char_p

def c(name):
    found = [libc.getenv(name.encode()) for libc in libcs]
    assert found[0] == found[1], found
    return found[0] and found[0].decode()

def walk():
    found = []
    for name in ["environ", "__environ"]:
        entries = ctypes.POINTER(ctypes.c_char_p).in_dll(libcs[0], name)
        index = 0
        while entries and entries[index] is not None:
            found.append(entries[index].decode())
            index += 1
    return found

ECHO = 'printf %s "$VIEW-$CHANGED"'

def status(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def forked(execute):
    pid = os.fork()
    if pid == 0:
        try:
            execute()
        finally:
            os._exit(99)
    return status(pid)

def children(expected):
    """Each way to start a program must hand over the environment."""
    check = ["/bin/sh", "-c", f'test "$VIEW-$CHANGED" = "{expected}"']
    assert subprocess.check_output(["/bin/sh", "-c", ECHO], text=True) == expected
    assert subprocess.check_output(["sh", "-c", ECHO], text=True, close_fds=False) == expected
    assert subprocess.check_output(ECHO, shell=True, text=True) == expected
    assert os.system(check[2]) == 0
    assert os.popen(ECHO).read() == expected
    assert os.spawnv(os.P_WAIT, "/bin/sh", check) == 0
    assert status(os.posix_spawn("/bin/sh", check, os.environ)) == 0
    assert status(os.posix_spawnp("sh", check, os.environ)) == 0
    assert forked(lambda: os.execv("/bin/sh", check)) == 0
    assert forked(lambda: os.execlp("sh", *check)) == 0
    assert forked(lambda: os.execvp("sh", check)) == 0
    assert forked(lambda: os._exit(0 if c("CHANGED") == os.environ["CHANGED"] else 1)) == 0

def turn(number, round):
    view = str(number) if number >= 0 else "none"
    changed = f"{view}.{round}"
    expected = {"VIEW": view, "PATH": "/usr/bin:/bin", f"ONLY_{view}": "1"}
    if number >= 0:
        # No variable of the process, and none that another interpreter sets.
        assert dict(os.environ) == expected, dict(os.environ)
        assert sorted(walk()) == sorted(2 * [f"{name}={value}" for name, value in expected.items()]), walk()
        assert c("HOST") is None and c("CHANGED") is None
    else:
        assert os.environ["HOST"] == c("HOST") == "1" and "CHANGED" not in os.environ
    for name, value in expected.items():
        assert os.environ[name] == os.getenv(name) == c(name) == value, name
    os.environ["CHANGED"] = changed
    assert c("CHANGED") == changed and f"CHANGED={changed}" in walk()
    seen = []
    thread = threading.Thread(target=lambda: seen.extend([c("VIEW"), c("CHANGED"), os.environ["CHANGED"]]))
    thread.start()
    thread.join()
    assert seen == [view, changed, changed], seen
    children(f"{view}-{changed}")
    # C code changes it behind os.environ's back.
    for libc, name in zip(libcs, [b"C_1", b"C_2"]):
        assert libc.setenv(name, view.encode(), 1) == 0 and c(name.decode()) == view
        assert subprocess.check_output(["/usr/bin/printenv", name.decode()], text=True).strip() == view
        assert libc.unsetenv(name) == 0 and c(name.decode()) is None
    os.putenv("PUT", view)
    assert c("PUT") == view and "PUT" not in os.environ
    os.unsetenv("PUT")
    del os.environ["CHANGED"]
    assert c("CHANGED") is None and c("PUT") is None
    if round == 0 and number >= 0:
        import multiprocessing
        for method in ["spawn", "forkserver"]:
            with multiprocessing.get_context(method).Pool(1) as workers:
                assert workers.apply(os.getenv, ("VIEW",)) == view
"#;

/// `turn(number, round)` of [`PROGRAM`], in the interpreters of `pool` one after the other.
fn turn(pool: &Pool, number: i64, round: i64) {
    for index in 0..pool.interpreters().len() {
        let session = pool.acquire_on(index).unwrap();
        let module = session.import("own_environment").unwrap();
        if let Err(error) = module.call_method("turn", (number, round)) {
            panic!("interpreter {index} of pool {number}, round {round}: {error}");
        }
    }
}

fn process() -> BTreeMap<OsString, OsString> {
    std::env::vars_os().collect()
}

#[test]
fn interpreters_have_environments_of_their_own_beside_those_that_share_the_process_s() {
    alone(4 * PATIENCE, || {
        for (name, value) in
            [("HOST", "1"), ("VIEW", "none"), ("ONLY_none", "1"), ("PATH", "/usr/bin:/bin")]
        {
            // SAFETY: no other thread uses the environment yet.
            unsafe { std::env::set_var(name, value) };
        }
        let before = process();
        for library in pythons().values() {
            let builder = || Pool::builder().python(library);
            let mut pools: Vec<(i64, Pool)> = (0..3)
                .map(|number| {
                    let variables = [
                        ("VIEW".into(), "overwritten".into()),
                        ("PATH".into(), "/usr/bin:/bin".into()),
                        (format!("ONLY_{number}"), "1".into()),
                        ("VIEW".into(), number.to_string()),
                    ];
                    // One of them has two interpreters, each with an environment of its own.
                    let count = if number == 2 { 2 } else { 1 };
                    let builder = builder().interpreters(count).environment(variables);
                    (number, builder.build().unwrap())
                })
                .collect();
            pools.push((-1, builder().interpreters(1).build().unwrap()));
            pools
                .iter()
                .for_each(|(_, pool)| pool.register_module("own_environment", PROGRAM).unwrap());
            let barrier = Barrier::new(pools.len());
            thread::scope(|scope| {
                for (number, pool) in &pools {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        (0..20).for_each(|round| turn(pool, *number, round));
                    });
                }
            });
        }
        assert_eq!(process(), before, "the process's environment is untouched");
    });
}

#[test]
fn an_interpreter_of_a_pool_changes_the_environment_of_no_other_one() {
    alone(PATIENCE, || {
        for builder in builders(2) {
            let pool = builder.environment([("A", "1")]).build().unwrap();
            let run = |index: usize, code: &str| -> String {
                let session = pool.acquire_on(index).unwrap();
                session.eval(code).unwrap().call(()).unwrap().extract().unwrap()
            };
            let look = "lambda: (lambda os, ctypes: f\"{sorted(os.environ.items())} {ctypes.CDLL(None).getenv(b'B')}\")\
                        (__import__('os'), __import__('ctypes'))";
            run(0, "lambda: __import__('os').environ.update(A='2', B='3') or ''");
            assert_eq!(run(1, look), "[('A', '1')] 0");
            assert!(run(0, look).starts_with("[('A', '2'), ('B', '3')] "));
            assert!(!run(0, look).ends_with(" 0"));
            assert!(std::env::var_os("B").is_none());
        }
    });
}

#[test]
fn an_interpreter_reads_the_python_variables_of_its_own_environment() {
    let of_the_process = [("PYTHONHASHSEED", "3".into()), ("PYTHONPATH", "/of/the/process".into())];
    alone_with(PATIENCE, &of_the_process, || {
        let look = "import sys; seen = [hash('hydrozoa'), sys.flags.optimize, sys.flags.utf8_mode >= 0, \
                    [entry for entry in sys.path if entry.startswith('/of/')], sys.flags.no_user_site]";
        let own = [
            ("PYTHONHASHSEED", "7"),
            ("PYTHONPATH", "/of/the/interpreter"),
            ("PYTHONOPTIMIZE", "1"),
            ("PYTHONNOUSERSITE", "1"),
        ];
        for builder in builders(1) {
            let pool = builder.clone().environment(own).build().unwrap();
            let python = pool.python().executable().expect("this python has an executable");
            let plain = Command::new(python)
                .args(["-c", &format!("{look}; print(seen)")])
                .env_clear()
                .envs(own)
                .output()
                .unwrap();
            let seen = |pool: &Pool| -> String {
                let session = pool.acquire().unwrap();
                let run = session.eval("lambda text: (d := {}, exec(text, d), repr(d['seen']))[2]");
                run.unwrap().call((look,)).unwrap().extract().unwrap()
            };
            let found = seen(&pool);
            assert_eq!(found, String::from_utf8(plain.stdout).unwrap().trim());
            assert!(found.contains("/of/the/interpreter"), "{found}");
            // Neither an empty environment nor that of the process has them.
            let none: [(&str, &str); 0] = [];
            for other in [builder.clone().environment(none), builder] {
                let found = seen(&other.build().unwrap());
                assert!(found.contains(", 0, True, [], 1]"), "{found}");
            }
        }
    });
}

#[test]
fn a_command_has_an_environment_of_its_own_and_its_children_too() {
    alone(PATIENCE, || {
        for library in pythons().values() {
            // Without a variable for the locale, python sets LC_CTYPE (PEP 538), here as in a process of its own.
            let program = "import os, sys; \
                           status = os.system('test \"$A-$COPY-$HYDROZOA_TEST_ALONE\" = 1-2-'); \
                           names = sorted(os.environ); \
                           sys.exit(0 if status == 0 and names == ['A', 'COPY', 'LC_CTYPE'] else 1)";
            let command = CommandLine::new(Some(library.clone()), None, ["-c", program]).unwrap();
            let command = command.environment([("A", "1")]).variable("COPY", "2");
            assert_eq!(command.run().unwrap(), 0);
            assert!(std::env::var_os("COPY").is_none());
        }
    });
}

#[test]
fn variables_that_no_environment_can_have_are_refused() {
    let refused = |name: &str, value: &str| {
        let built = Pool::builder().interpreters(1).environment([(name, value)]).build();
        match built {
            Err(Error::Configuration(why)) => why,
            other => panic!("{name:?}={value:?}: {other:?}"),
        }
    };
    let same = "the environment has a variable ";
    let way_out = ": change it or leave it out";
    assert_eq!(refused("", "1"), format!("{same}\"\", and a name has at least one byte{way_out}"));
    assert_eq!(refused("A=B", "1"), format!("{same}\"A=B\", and a name ends before `=`{way_out}"));
    assert_eq!(
        refused("A", "\0"),
        format!("{same}\"A\", whose name or value contains a NUL byte{way_out}")
    );
}
