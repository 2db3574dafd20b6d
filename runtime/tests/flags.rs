//! The flags of a python command line, as settings of a pool.

mod pythons;

use hydrozoa::{Builder, Session};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use pythons::builders;

fn text(session: &Session, expression: &str) -> String {
    session.eval(expression).unwrap().str().unwrap()
}

/// In an interpreter of each version with the settings.
fn each(settings: impl Fn(Builder) -> Builder, check: impl Fn(&Session)) {
    for builder in builders(1) {
        let pool = settings(builder).build().unwrap();
        check(&pool.acquire().unwrap());
    }
}

const FLAGS: &str = "(lambda flags: (flags.optimize, flags.hash_randomization, flags.dont_write_bytecode, flags.dev_mode))\
                     (__import__('sys').flags)";

#[test]
fn without_settings_flags_are_those_of_an_isolated_python() {
    each(
        |builder| builder,
        |session| {
            assert_eq!(text(session, FLAGS), "(0, 1, 0, False)");
            assert_eq!(text(session, "__import__('sys').warnoptions"), "[]");
        },
    );
}

#[test]
fn optimized_code_has_no_assertions_and_no_docstrings() {
    const CODE: &str = "def f():\n    'documented'\n    assert False\n    return 42";
    for (level, documented) in [(1, "documented"), (2, "None")] {
        each(
            |builder| builder.optimize(level),
            |session| {
                let module = session.run(CODE, "optimized.py").unwrap();
                assert_eq!(module.call_method("f", ()).unwrap().extract::<i64>().unwrap(), 42);
                let found = module.getattr("f").unwrap().getattr("__doc__").unwrap();
                assert_eq!(found.str().unwrap(), documented);
            },
        );
    }
}

#[test]
fn a_seed_makes_hashes_those_of_each_interpreter_and_run() {
    for builder in builders(2) {
        let hashes = |builder: Builder| {
            let pool = builder.build().unwrap();
            [0, 1].map(|index| text(&pool.acquire_on(index).unwrap(), "hash('coral')"))
        };
        let [one, other] = hashes(builder.clone().hash_seed(7));
        assert_eq!(one, other);
        assert_eq!(hashes(builder.clone().hash_seed(7))[0], one);
        assert_ne!(hashes(builder.clone().hash_seed(0))[0], one);
        let [one, other] = hashes(builder);
        assert_ne!(one, other);
    }
}

#[test]
fn what_an_unbuffered_interpreter_prints_arrives_at_once() {
    alone(PATIENCE, || {
        let code = "
import os, sys
reader, writer = os.pipe()
os.set_blocking(reader, False)
saved = os.dup(1)
os.dup2(writer, 1)
try:
    print('now')
    try:
        arrived = os.read(reader, 100)
    except BlockingIOError:
        arrived = b''
finally:
    sys.stdout.flush()
    os.dup2(saved, 1)
";
        for (unbuffered, expected) in [(true, &b"now\n"[..]), (false, b"")] {
            each(
                |builder| builder.unbuffered(unbuffered),
                |session| {
                    let module = session.run(code, "print.py").unwrap();
                    let arrived: Vec<u8> = module.getattr("arrived").unwrap().extract().unwrap();
                    assert_eq!(arrived, expected);
                },
            );
        }
    });
}

#[test]
fn no_bytecode_is_written_where_none_is_wanted() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("flags-bytecode");
    each(
        |builder| builder.path(&folder).write_bytecode(false),
        |session| {
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("plain_module.py"), "answer = 42").unwrap();
            session.import("plain_module").unwrap();
            assert!(!folder.join("__pycache__").exists());
            session.import("sys").unwrap().setattr("dont_write_bytecode", false).unwrap();
            session.import("importlib").unwrap().call_method("invalidate_caches", ()).unwrap();
            std::fs::write(folder.join("other_module.py"), "answer = 42").unwrap();
            session.import("other_module").unwrap();
            assert!(folder.join("__pycache__").exists());
        },
    );
}

#[test]
fn filters_of_warnings_count_in_their_order() {
    let warn = "import warnings\nwarnings.warn('old', DeprecationWarning)";
    each(
        |builder| builder.warning("error"),
        |session| {
            let error = session.run(warn, "warn.py").unwrap_err().to_string();
            assert_eq!(error, "DeprecationWarning: old");
        },
    );
    each(
        |builder| builder.warning("error").warning("ignore::DeprecationWarning"),
        |session| drop(session.run(warn, "warn.py").unwrap()),
    );
}

#[test]
fn options_of_the_implementation_have_their_effect() {
    each(
        |builder| builder.x_option("int_max_str_digits=640").x_option("mine=5"),
        |session| {
            let options = text(session, "__import__('sys')._xoptions");
            assert_eq!(options, "{'int_max_str_digits': '640', 'mine': '5'}");
            assert_eq!(text(session, "len(str(10 ** 639))"), "640");
            assert_eq!(text(session, "__import__('sys').get_int_max_str_digits()"), "640");
            assert!(session.eval("str(10 ** 6400)").is_err());
        },
    );
    each(
        |builder| builder.x_option("tracemalloc=5"),
        |session| {
            let limit =
                session.import("tracemalloc").unwrap().call_method("get_traceback_limit", ());
            assert_eq!(limit.unwrap().extract::<i64>().unwrap(), 5);
        },
    );
    each(
        |builder| builder.x_option("dev"),
        |session| {
            assert_eq!(text(session, "__import__('sys').flags.dev_mode"), "True");
            assert_eq!(text(session, "__import__('sys').warnoptions"), "['default']");
            assert_eq!(text(session, "__import__('faulthandler').is_enabled()"), "False");
        },
    );
}

#[test]
fn settings_come_before_variables_of_an_environment_of_its_own() {
    let variables = [("PYTHONHASHSEED", "1"), ("PYTHONOPTIMIZE", "1"), ("PYTHONWARNINGS", "error")];
    each(
        |builder| builder.environment(variables).warning("ignore"),
        |session| {
            assert_eq!(text(session, FLAGS), "(1, 1, 0, False)");
            drop(session.run("import warnings\nwarnings.warn('old')", "warn.py").unwrap());
        },
    );
    let hash = |seed: Option<u32>| {
        let builder = builders(1).next().unwrap().environment(variables);
        let builder = seed.into_iter().fold(builder, Builder::hash_seed);
        text(&builder.build().unwrap().acquire().unwrap(), "hash('coral')")
    };
    assert_ne!(hash(Some(2)), hash(None));
    assert_eq!(hash(Some(1)), hash(None));
}
