//! Exceptions as values, and on their way through Rust. The tests run on every Python of the machine.

#[path = "common/mod.rs"]
mod common;
mod pythons;

use hydrozoa::{Error, Exception, Object, Pool, Result, Session, Spread};
use pythons::pools;
use std::sync::Mutex;
use std::time::Duration;

const CODE: &str = "
import sys

class OrderError(ValueError):
    def __init__(self, code):
        super().__init__(f'order {code}')
        self.code = code

class Local:
    alive = 0
    def __init__(self): Local.alive += 1
    def __del__(self): Local.alive -= 1

def refuse(code):
    local = Local()
    raise OrderError(code)

def caused():
    try:
        refuse(1)
    except OrderError as error:
        raise KeyError('outer') from error

def during():
    try:
        refuse(2)
    except OrderError:
        raise KeyError('later')

def noted():
    error = OrderError(3)
    if hasattr(error, 'add_note'):
        error.add_note('first')
        error.add_note('second \\ud800')
    raise error

def through(f, *arguments):
    return f(*arguments)

def caught(f, *arguments):
    try:
        f(*arguments)
    except BaseException as error:
        return error

def leave(status): raise SystemExit(status)
def interrupt(): raise KeyboardInterrupt('enough')
def close(): raise GeneratorExit

def group():
    raise ExceptionGroup('both', [OrderError(4), OSError(2, 'no file')])
";

/// Runs `test` in each Python, with the names of the code above.
fn each(test: impl for<'s> Fn(&'s Session, &Object<'s>)) {
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
        let names = session.run(CODE, "orders.py").unwrap();
        test(&session, &names);
    }
}

fn minor(session: &Session) -> u8 {
    session.interpreter().python().minor()
}

/// The error with which a call of that name ends, and its exception.
#[track_caller]
fn raised(names: &Object<'_>, name: &str) -> (Error, Exception) {
    let error = names.getattr(name).unwrap().call(()).unwrap_err();
    let exception = error.exception().expect("an exception").clone();
    (error, exception)
}

/// A host function that calls its first argument with the others, and passes its error on.
fn passing(session: &Session) -> Object<'_> {
    session
        .function("passing", |_, arguments| {
            let rest: Vec<_> = arguments.iter().skip(1).collect();
            arguments.get(0).unwrap().call(Spread(rest))
        })
        .unwrap()
}

#[test]
fn an_exception_has_its_attributes_arguments_and_class() {
    each(|session, names| {
        let error = names.getattr("refuse").unwrap().call((7,)).unwrap_err();
        let exception = error.exception().unwrap();
        let value = exception.value(session).unwrap();
        assert_eq!(value.getattr("code").unwrap().extract::<i64>().unwrap(), 7);
        let arguments = exception.args(session).unwrap();
        assert_eq!(arguments.len(), 1);
        assert_eq!(arguments[0].extract::<String>().unwrap(), "order 7");
        let is = |class: Object<'_>| exception.is_instance_of(&class).unwrap();
        assert!(is(names.getattr("OrderError").unwrap()));
        assert!(is(session.eval("(KeyError, ValueError)").unwrap()));
        assert!(!is(session.eval("KeyError").unwrap()));
        let one = session.eval("1").unwrap();
        let error = exception.is_instance_of(&one).unwrap_err();
        assert!(error.to_string().starts_with("TypeError: "), "{error}");
        assert!(value.extract::<Exception>().unwrap().is(exception));
        let other = raised(names, "caused").1;
        assert!(!other.is(exception));
        // An object that claims to be an exception need not be one.
        let code = "class Mock:\n    __class__ = ValueError";
        let mock = session.run(code, "mock.py").unwrap().getattr("Mock").unwrap();
        for object in [mock.call(()).unwrap(), mock, session.eval("ValueError").unwrap()] {
            let error = object.extract::<Exception>().unwrap_err();
            assert!(matches!(error, Error::Convert { .. }), "{error}");
            let error = object.into_error();
            assert!(!matches!(error, Error::Panic(_)), "{error}");
        }
    });
}

#[test]
fn cause_context_and_notes_are_values() {
    each(|session, names| {
        let code = |exception: Exception| -> i64 {
            exception.value(session).unwrap().getattr("code").unwrap().extract().unwrap()
        };
        let (_, caused) = raised(names, "caused");
        assert_eq!(code(caused.cause(session).unwrap().unwrap()), 1);
        assert_eq!(code(caused.context(session).unwrap().unwrap()), 1);
        let (_, during) = raised(names, "during");
        assert!(during.cause(session).unwrap().is_none());
        assert_eq!(code(during.context(session).unwrap().unwrap()), 2);
        assert_eq!(during.notes(session).unwrap(), Vec::<String>::new());
        let (_, noted) = raised(names, "noted");
        match minor(session) {
            10 => assert!(noted.notes(session).unwrap().is_empty()),
            _ => assert_eq!(noted.notes(session).unwrap(), ["first", "second \\ud800"]),
        }
        assert!(noted.context(session).unwrap().is_none());
    });
}

#[test]
fn frames_are_data() {
    each(|session, names| {
        let (error, exception) = raised(names, "caused");
        let frames = exception.frames(session).unwrap();
        assert_eq!(frames.len(), 1);
        assert_eq!((frames[0].file.as_str(), frames[0].function.as_str()), ("orders.py", "caused"));
        let line = CODE.lines().position(|line| line.contains("from error")).unwrap() + 1;
        assert_eq!(frames[0].line, Some(line as u32));
        assert!(error.traceback().unwrap().contains(&frames[0].to_string()), "{error:?}");
        let cause = exception.cause(session).unwrap().unwrap();
        let names: Vec<_> =
            cause.frames(session).unwrap().into_iter().map(|frame| frame.function).collect();
        assert_eq!(names, ["caused", "refuse"]);
        let code = "compile('1 / 0', 'odd\\udcff.py', 'exec')";
        let (code, globals) = (session.eval(code).unwrap(), session.eval("{}").unwrap());
        let builtins = session.import("builtins").unwrap();
        let odd = builtins.call_method("exec", (code, globals)).unwrap_err();
        let frames = odd.exception().unwrap().frames(session).unwrap();
        assert_eq!(frames[0].file, "odd\\udcff.py");
        let never = session.eval("ValueError('never raised')").unwrap();
        let never: Exception = never.extract().unwrap();
        assert!(never.frames(session).unwrap().is_empty());
    });
}

#[test]
fn an_exception_passes_through_rust_as_the_same_object() {
    each(|session, names| {
        let passing = passing(session);
        let item = |name: &str| names.getattr(name).unwrap();
        let (caught, through, caused) = (item("caught"), item("through"), item("caused"));
        let once = caught.call((&passing, &caused)).unwrap();
        assert_eq!(once.type_name(), "KeyError");
        let cause = once.getattr("__cause__").unwrap();
        assert_eq!(cause.getattr("code").unwrap().extract::<i64>().unwrap(), 1);
        // Through two Rust functions, with Python functions around each.
        let error = through.call((&passing, &through, &passing, &caused)).unwrap_err();
        let exception = error.exception().unwrap();
        assert!(exception.cause(session).unwrap().is_some());
        let functions = |exception: &Exception| -> Vec<String> {
            exception.frames(session).unwrap().into_iter().map(|frame| frame.function).collect()
        };
        assert_eq!(functions(exception), ["through", "through", "caused"]);
        assert_eq!(error.traceback().unwrap().matches("in through").count(), 2, "{error:?}");
        // The object that Rust has seen is the one that Python gets.
        let code = "
def look(raising, passing):
    error = ValueError('this one')
    def f(): raise error
    try:
        passing(passing, f)
    except ValueError as seen:
        return seen is error and error.__context__ is None
";
        let look = session.run(code, "look.py").unwrap().getattr("look").unwrap();
        assert!(look.call(((), &passing)).unwrap().truth().unwrap());
    });
}

#[test]
fn rust_raises_classes_and_instances_of_the_program() {
    each(|session, names| {
        let class = names.getattr("OrderError").unwrap();
        let caught = names.getattr("caught").unwrap();
        let f = session
            .function("f", |_, arguments| {
                let class = arguments.get(0).unwrap();
                match arguments.get(1) {
                    Some(code) => Err(class.call((code,))?.into_error()),
                    None => Err(class.clone().into_error()),
                }
            })
            .unwrap();
        let error = caught.call((&f, &class, 7)).unwrap();
        assert!(error.getattr("__class__").unwrap().is(&class));
        assert_eq!(error.getattr("code").unwrap().extract::<i64>().unwrap(), 7);
        let error = caught.call((&f, &class)).unwrap();
        assert_eq!(error.type_name(), "TypeError", "{error}");
        let interrupt = session.eval("KeyboardInterrupt").unwrap();
        assert_eq!(caught.call((&f, interrupt)).unwrap().type_name(), "KeyboardInterrupt");
        let error = session.eval("'no exception'").unwrap().into_error();
        assert_eq!(error.to_string(), "TypeError: exceptions must derive from BaseException");
        let error = class.call((5,)).unwrap().into_error();
        assert_eq!(error.to_string(), "__hydrozoa__.orders.OrderError: order 5");

        let raise = |type_name: &'static str| {
            let f =
                session.function("f", move |_, _| Err(Error::raise(type_name, "text"))).unwrap();
            caught.call((&f,)).unwrap().repr().unwrap()
        };
        assert_eq!(raise("LookupError"), "LookupError('text')");
        assert_eq!(raise("GeneratorExit"), "GeneratorExit('text')");
        // None of these is an exception that takes one text.
        for other in ["mine.Own", "UnicodeDecodeError", "int", "None", ""] {
            let text = format!("{other}: text");
            assert_eq!(raise(other), format!("RuntimeError('{}')", text.trim_start_matches(": ")));
        }
    });
}

#[test]
fn what_rust_raises_has_the_context_of_what_is_handled() {
    each(|session, _| {
        let code = "
def attempt(f):
    try:
        raise OSError('first')
    except OSError:
        try:
            f()
        except KeyError as error:
            return repr(error.__context__), error.__cause__
";
        let attempt = session.run(code, "attempt.py").unwrap().getattr("attempt").unwrap();
        let named = session.function("f", |_, _| Err(Error::raise("KeyError", "second")));
        let object = session
            .function("f", |session, _| Err(session.eval("KeyError('second')")?.into_error()));
        for f in [named.unwrap(), object.unwrap()] {
            let seen: (String, ()) = attempt.call((&f,)).unwrap().extract().unwrap();
            assert_eq!(seen.0, "OSError('first')");
        }
    });
}

#[test]
fn base_exceptions_keep_class_and_code_through_rust() {
    each(|session, names| {
        let passing = passing(session);
        let error = passing.call((names.getattr("leave").unwrap(), (4, 5))).unwrap_err();
        let code = error.exception().unwrap().value(session).unwrap().getattr("code").unwrap();
        assert_eq!(code.extract::<(i64, i64)>().unwrap(), (4, 5));
        assert!(matches!(&error, Error::Python { type_name, .. } if type_name == "SystemExit"));
        for (name, class) in [("interrupt", "KeyboardInterrupt"), ("close", "GeneratorExit")] {
            let function = names.getattr(name).unwrap();
            let caught = names.getattr("caught").unwrap().call((&passing, function)).unwrap();
            assert_eq!(caught.type_name(), class);
        }
    });
}

#[test]
fn groups_of_exceptions_are_values() {
    each(|session, names| {
        if minor(session) < 11 {
            return;
        }
        let passing = passing(session);
        let error = passing.call((names.getattr("group").unwrap(),)).unwrap_err();
        let group = error.exception().unwrap().value(session).unwrap();
        let members: Vec<Exception> = group.getattr("exceptions").unwrap().extract().unwrap();
        let texts: Vec<_> =
            members.iter().map(|one| one.value(session).unwrap().repr().unwrap()).collect();
        assert_eq!(texts, ["OrderError('order 4')", "FileNotFoundError(2, 'no file')"]);
        assert!(error.traceback().unwrap().contains("[Errno 2] no file"), "{error:?}");
    });
}

#[test]
fn an_exception_of_another_interpreter_is_raised_by_name_with_its_traceback() {
    for pool in pools(2) {
        let sessions: Vec<_> = pool.interpreters().iter().map(|one| one.session()).collect();
        let codes: Vec<_> =
            sessions.iter().map(|session| session.run(CODE, "orders.py").unwrap()).collect();
        let foreign = pool.interpreters()[1].clone();
        let f = sessions[0]
            .function("f", move |_, _| {
                let session = foreign.session();
                let names = session.run(CODE, "elsewhere.py")?;
                Err(names.getattr("caused")?.call(()).unwrap_err())
            })
            .unwrap();
        let caught = codes[0].getattr("caught").unwrap().call((&f,)).unwrap();
        assert_eq!(caught.type_name(), "KeyError");
        let cause = caught.getattr("__cause__").unwrap();
        assert_eq!(cause.type_name(), "RemoteTraceback");
        let text = cause.str().unwrap();
        assert!(text.contains("elsewhere.py") && text.contains("order 1"), "{text}");
        let error = f.call(()).unwrap_err();
        assert!(error.traceback().unwrap().contains("elsewhere.py"), "{error:?}");

        let (_, exception) = raised(&codes[1], "caused");
        let error = exception.value(&sessions[0]).unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error}");
        let error = sessions[0].object_from(&exception).unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error}");
        drop((caught, cause, f));
    }
}

#[test]
fn an_error_of_the_application_goes_through_python_and_comes_back() {
    #[derive(Debug, PartialEq)]
    struct Refused(u8);
    impl std::fmt::Display for Refused {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(formatter, "number {} is refused", self.0)
        }
    }
    impl std::error::Error for Refused {}

    each(|session, names| {
        let (through, caught) =
            (names.getattr("through").unwrap(), names.getattr("caught").unwrap());
        let f = session.function("f", |_, _| Err(Error::host(Refused(9)))).unwrap();
        let error = caught.call((&f,)).unwrap();
        assert_eq!(error.repr().unwrap(), "RuntimeError('number 9 is refused')");

        let passing = passing(session);
        let error = through.call((&passing, &through, &f)).unwrap_err();
        assert_eq!(error.to_string(), "number 9 is refused");
        let functions: Vec<_> = error.exception().unwrap().frames(session).unwrap();
        // Python's frames before and behind the Rust function: it was one exception.
        let functions: Vec<_> = functions.iter().map(|frame| frame.function.as_str()).collect();
        assert_eq!(functions, ["through", "through"]);
        assert!(error.traceback().unwrap().contains("number 9 is refused"), "{error:?}");
        let Error::Host(error) = error else { panic!("{error}") };
        assert_eq!(error.downcast_ref::<Refused>(), Some(&Refused(9)));
        assert_eq!(*error.into_error().downcast::<Refused>().unwrap(), Refused(9));

        // Python code that raises it from another exception does not lose it; pickling does.
        let code = "
import copy, pickle
def pickled(f):
    try:
        f()
    except RuntimeError as error:
        raise copy.deepcopy(pickle.loads(pickle.dumps(error)))
def forged():
    error = RuntimeError('forged')
    error._hydrozoa_error = 7
    raise error
";
        let names = session.run(code, "pickled.py").unwrap();
        for (name, text) in [("pickled", "number 9 is refused"), ("forged", "forged")] {
            let function = names.getattr(name).unwrap();
            let error = match name {
                "pickled" => function.call((&f,)),
                _ => function.call(()),
            };
            let error = error.unwrap_err();
            assert_eq!(error.to_string(), format!("RuntimeError: {text}"));
        }
    });
}

#[test]
fn an_error_of_the_application_comes_back_from_a_thread_of_python() {
    each(|session, _| {
        let code = "
from concurrent.futures import ThreadPoolExecutor
def submit(f):
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(f).result()
";
        let submit = session.run(code, "submit.py").unwrap().getattr("submit").unwrap();
        let f = session.function("f", |_, _| Err(Error::host("not here"))).unwrap();
        let error = submit.call((&f,)).unwrap_err();
        assert!(matches!(error, Error::Host(_)), "{error:?}");
        assert_eq!(error.to_string(), "not here");
    });
}

#[test]
fn a_drop_does_not_wait_for_the_gil() {
    each(|session, names| {
        let (error, exception) = raised(names, "caused");
        let alive = || {
            let alive = names.getattr("Local").unwrap().getattr("alive").unwrap();
            alive.extract::<i64>().unwrap()
        };
        session.with_gil(|| {
            // Another thread, which this one waits for with the GIL.
            std::thread::scope(|scope| {
                scope.spawn(move || drop((error, exception)));
            });
            assert_eq!(alive(), 1);
        });
        session.interpreter().drain();
        assert_eq!(alive(), 0);
    });
}

#[test]
fn sources_are_in_the_text_and_a_python_exception_among_them_is_the_cause() {
    each(|session, names| {
        let caught = names.getattr("caught").unwrap();
        let f = session
            .function("f", |_, arguments| {
                let error = anyhow::Error::from(arguments.get(0).unwrap().call((3,)).unwrap_err());
                Err(Error::host(error.context("placing it").context("serving")))
            })
            .unwrap();
        let error = caught.call((&f, names.getattr("refuse").unwrap())).unwrap();
        let text = "serving: placing it: __hydrozoa__.orders.OrderError: order 3";
        assert_eq!(error.str().unwrap(), text);
        let cause = error.getattr("__cause__").unwrap();
        assert_eq!(cause.getattr("code").unwrap().extract::<i64>().unwrap(), 3);

        let boxed: fn() -> Result<(), Box<dyn std::error::Error + Send + Sync>> =
            || Err("plain text".into());
        let f = session.function("f", move |session, _| {
            boxed()?;
            session.none()
        });
        let error = caught.call((&f.unwrap(),)).unwrap();
        assert_eq!(error.repr().unwrap(), "RuntimeError('plain text')");

        // An error of this crate stays what it is.
        let error = Error::host(raised(names, "caused").0);
        assert!(matches!(&error, Error::Python { type_name, .. } if type_name == "KeyError"));
    });
}

#[test]
fn typed_errors_come_back_as_what_they_are() {
    each(|session, names| {
        let f = session
            .function("f", |session, _| {
                Err(session.interpreter().pool().acquire_on(9).unwrap_err())
            })
            .unwrap();
        let error = names.getattr("through").unwrap().call((&f,)).unwrap_err();
        assert!(matches!(error, Error::NoSuchInterpreter { index: 9, .. }), "{error}");
    });
}

#[test]
fn variables_of_frames_are_freed_with_the_exception_or_by_request() {
    each(|session, names| {
        let alive = || -> i64 {
            session.interpreter().drain();
            names.getattr("Local").unwrap().getattr("alive").unwrap().extract().unwrap()
        };
        let (error, exception) = raised(names, "caused");
        assert_eq!(alive(), 1);
        exception.clear_frames(session).unwrap();
        assert_eq!(alive(), 0);
        assert_eq!(exception.frames(session).unwrap().len(), 1);
        drop((error, exception));

        let (error, exception) = raised(names, "during");
        drop(exception);
        assert_eq!(alive(), 1);
        let error = error.without_exception();
        assert_eq!(alive(), 0);
        assert!(error.exception().is_none());
        assert_eq!(error.to_string(), "KeyError: 'later'");
        assert!(error.traceback().unwrap().contains("order 2"), "{error:?}");
    });
}

#[test]
fn an_error_outlives_its_pool() {
    for pool in pools(1) {
        let (error, exception) = {
            let session = pool.acquire().unwrap();
            raised(&session.run(CODE, "orders.py").unwrap(), "caused")
        };
        drop(pool);
        assert_eq!(error.to_string(), "KeyError: 'outer'");
        assert_eq!(format!("{exception:?}"), "<an exception of interpreter 0>");
        let others = Pool::builder().build().unwrap();
        let session = others.acquire().unwrap();
        assert!(matches!(exception.value(&session), Err(Error::Ended { .. })));
        assert!(matches!(exception.frames(&session), Err(Error::Ended { .. })));
        // It is raised by name, with the text of its traceback.
        let error = Mutex::new(Some(error));
        let f = session.function("f", move |_, _| Err(error.lock().unwrap().take().unwrap()));
        let error = f.unwrap().call(()).unwrap_err();
        assert!(error.traceback().unwrap().contains("orders.py"), "{error:?}");
    }
}

#[test]
fn an_exception_that_is_kept_does_not_keep_its_interpreter() {
    for pool in pools(2) {
        let kept: Vec<_> = pool
            .interpreters()
            .iter()
            .map(|interpreter| {
                let session = interpreter.session();
                raised(&session.run(CODE, "orders.py").unwrap(), "caused")
            })
            .collect();
        pool.close(Duration::from_secs(60)).unwrap();
        drop(kept);
    }
}

#[test]
fn exceptions_that_are_raised_and_dropped_leave_nothing() {
    let _alone = common::alone();
    each(|session, names| {
        let f = session.function("f", |_, arguments| arguments.get(0).unwrap().call((1,))).unwrap();
        let own = session.function("own", |_, _| Err(Error::host("refused"))).unwrap();
        let caught = names.getattr("caught").unwrap();
        let refuse = names.getattr("refuse").unwrap();
        let blocks = || -> i64 {
            session.interpreter().drain();
            session.eval("__import__('sys').getallocatedblocks()").unwrap().extract().unwrap()
        };
        let round = |count: usize| {
            for _ in 0..count {
                session.with_gil(|| {
                    drop(refuse.call((1,)).unwrap_err());
                    drop(f.call((&refuse,)).unwrap_err());
                    drop(own.call(()).unwrap_err());
                    drop(caught.call((&own,)).unwrap());
                });
            }
        };
        round(200);
        let before = blocks();
        // Four exceptions each, 100,000 in all Pythons together.
        round(25_000 / pythons::pythons().len());
        let grown = blocks() - before;
        assert!(grown < 500, "{grown} more blocks of memory");
        let alive = names.getattr("Local").unwrap().getattr("alive").unwrap();
        assert_eq!(alive.extract::<i64>().unwrap(), 0);
    });
}
