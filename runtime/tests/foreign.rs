//! Objects that are passed to an interpreter which does not own them. Lifetimes do not prevent that: leaked
//! sessions all live as long as the process.

mod pythons;

use hydrozoa::{
    Arguments, Error, FromPython, Named, Object, Positional, Result, Session, ToArguments,
    ToKeywords, ToPython, Value,
};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use pythons::{each_pool_alone, pools};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Two leaked sessions, on two interpreters of a pool.
fn leaked() -> impl Iterator<Item = [&'static Session; 2]> {
    pools(2).map(|pool| {
        let sessions = [0, 1].map(|index| &*Box::leak(Box::new(pool.acquire_on(index).unwrap())));
        std::mem::forget(pool);
        sessions
    })
}

/// Converts to an object of another interpreter, whatever it is asked for.
struct Smuggled(Object<'static>);

impl ToPython for Smuggled {
    fn to_python<'session>(&self, _: &'session Session) -> Result<Object<'session>> {
        Ok(self.0.clone())
    }
}

impl ToArguments for Smuggled {
    fn append_to<'a>(&'a self, arguments: &mut Positional<'_, 'a>) -> Result<()> {
        arguments.push(&self.0)
    }
}

impl ToKeywords for Smuggled {
    fn append_to<'a>(&'a self, arguments: &mut Named<'_, 'a>) -> Result<()> {
        arguments.push("name", self)
    }
}

fn is_foreign<T>(door: &str, outcome: Result<T>) {
    match outcome.map(drop) {
        Err(error @ Error::Foreign { .. }) => {
            let text = error.to_string();
            assert!(
                text.starts_with("an object of interpreter 1 was passed to interpreter 0;"),
                "{door}: {text}"
            );
        }
        other => panic!("{door}: {other:?}"),
    }
}

#[test]
fn an_object_of_another_interpreter_is_refused_at_every_door() {
    alone(PATIENCE, || {
        for [own, other] in leaked() {
            let smuggled = || Smuggled(other.eval("[object()]").unwrap());
            let f = own.eval("lambda *args, **kwargs: repr((args, kwargs))").unwrap();
            let dict = own.eval("{}").unwrap();
            let namespace =
                own.import("types").unwrap().call_method("SimpleNamespace", ()).unwrap();
            is_foreign("object_from", own.object_from(&smuggled()));
            is_foreign("an option", own.object_from(&Some(smuggled())));
            is_foreign("a list", own.object_from(&vec![smuggled()]));
            is_foreign("a tuple", own.object_from(&(1, smuggled())));
            let map = std::collections::BTreeMap::from([(1, smuggled())]);
            is_foreign("a dict", own.object_from(&map));
            is_foreign("an argument", f.call((1, smuggled())));
            is_foreign("arguments", f.call(smuggled()));
            is_foreign("a keyword", f.call_kwargs((), [("name", smuggled())]));
            is_foreign("keywords", f.call_kwargs((1,), smuggled()));
            is_foreign("a method's argument", dict.call_method("get", (smuggled(),)));
            is_foreign("a method's keywords", dict.call_method_kwargs("update", (), smuggled()));
            is_foreign("setattr", namespace.setattr("name", smuggled()));
            is_foreign("get_item", dict.get_item(smuggled()));
            is_foreign("a key", dict.set_item(smuggled(), 1));
            is_foreign("a value", dict.set_item(1, smuggled()));
            is_foreign("delete_item", dict.delete_item(smuggled()));
            is_foreign("create_movable", own.create_movable(&smuggled().0));
            let movable =
                own.create_movable(&own.import("operator").unwrap().getattr("not_").unwrap());
            let movable = movable.unwrap();
            own.with_gil(|| {
                is_foreign("to_object", movable.to_object(own).unwrap().call(smuggled()))
            });
            // None of it has got in, and both still work.
            assert_eq!(dict.len().unwrap(), 0);
            assert_eq!(f.call((1,)).unwrap().str().unwrap(), "((1,), {})");
            assert_eq!(smuggled().0.len().unwrap(), 1);
        }
    });
}

#[test]
fn a_host_function_cannot_return_an_object_of_another_interpreter() {
    alone(PATIENCE, || {
        for [own, other] in leaked() {
            let stranger = other.eval("[object()]").unwrap();
            let f = own.function("f", move |_, _: Arguments<'_>| Ok(stranger.clone())).unwrap();
            is_foreign("a result", f.call(()));
            let code = "
def attempt(f):
    try:
        return repr(f())
    except Exception as error:
        return f'{type(error).__name__}: {error}'
";
            let attempt = own.run(code, "attempt.py").unwrap().getattr("attempt").unwrap();
            let said: String = attempt.call((&f,)).unwrap().extract().unwrap();
            assert!(said.starts_with("RuntimeError: an object of interpreter 1"), "{said}");
        }
    });
}

#[test]
fn interpreters_of_the_same_name_in_two_pools_are_told_apart() {
    alone(PATIENCE, || {
        for (one, other) in pools(1).zip(pools(1)) {
            let (one, other) = (one.acquire().unwrap(), other.acquire().unwrap());
            let error = one.object_from(&other.none().unwrap()).unwrap_err();
            assert!(
                error.to_string().starts_with(
                    "an object of interpreter 0 of another pool was passed to interpreter 0;"
                ),
                "{error}"
            );
        }
    });
}

#[test]
fn bytes_are_read_in_one_turn_while_another_thread_changes_them() {
    each_pool_alone(1, |pool| {
        let session = pool.acquire().unwrap();
        let code = "
changing = bytearray()
def change():
    global changing
    for _ in range(10):
        changing[:] = b'a' * 1_000_000
        changing[:] = b'b' * 3_000_000
";
        let names = session.run(code, "change.py").unwrap();
        let changing = names.getattr("changing").unwrap();
        let change = names.getattr("change").unwrap();
        change.call(()).unwrap();
        let states = [vec![b'a'; 1_000_000], vec![b'b'; 3_000_000]];
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    change.call(()).unwrap();
                }
            });
            let deadline = Instant::now() + Duration::from_secs(3);
            let mut reads = 0;
            while reads < 40 && Instant::now() < deadline {
                // Not by `extract`, which holds the GIL around either.
                let bytes = Vec::<u8>::from_python(&changing).unwrap();
                let value = Value::from_python(&changing).unwrap();
                let Value::Bytes(other) = value else { panic!("{value:?}") };
                if !states.contains(&bytes) || !states.contains(&other) {
                    done.store(true, Ordering::Relaxed);
                    panic!("bytes of two states after {reads} reads");
                }
                reads += 1;
            }
            done.store(true, Ordering::Relaxed);
        });
    });
}
