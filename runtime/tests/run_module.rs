//! Code that is run is a module.

mod pythons;

use hydrozoa::{Error, Pool, Session};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use pythons::pools;

/// The newest Python, where what is tested does not depend on the version.
fn newest() -> Pool {
    pools(1).last().unwrap()
}

fn text(session: &Session, expression: &str) -> String {
    session.eval(expression).unwrap().str().unwrap()
}

const SHAPES: &str = "\
from __future__ import annotations
import dataclasses, inspect, pickle, typing

@dataclasses.dataclass
class Point:
    x: int
    tags: typing.ClassVar[list[str]] = []
    other: Point | None = None

def there_and_back(point):
    return pickle.loads(pickle.dumps(point))

def hints():
    return typing.get_type_hints(Point)['x'].__name__

def source():
    return inspect.getsource(there_and_back)
";

#[test]
fn dataclasses_pickling_type_hints_and_sources_work() {
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
        let shapes = session.run(SHAPES, "shapes.py").unwrap();
        let point = shapes.call_method("Point", (3,)).unwrap();
        let again = shapes.call_method("there_and_back", (&point,)).unwrap();
        assert_eq!(again.repr().unwrap(), "Point(x=3, other=None)");
        assert!(again.getattr("__class__").unwrap().is(&shapes.getattr("Point").unwrap()));
        assert_eq!(shapes.call_method("hints", ()).unwrap().str().unwrap(), "int");
        let source = shapes.call_method("source", ()).unwrap().str().unwrap();
        assert!(source.starts_with("def there_and_back(point):\n    return pickle"), "{source}");
        let inspect = session.import("inspect").unwrap();
        let source = inspect.call_method("getsource", (shapes.getattr("Point").unwrap(),)).unwrap();
        assert!(source.str().unwrap().starts_with("@dataclasses.dataclass\nclass Point:"));
    }
}

#[test]
fn a_module_has_a_name_a_file_and_its_attributes() {
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
        let module = session.run("def double(n): return 2 * n\nname = __name__", "my/double.v2.py");
        let module = module.unwrap();
        let attribute = |name: &str| module.getattr(name).unwrap().str().unwrap();
        assert_eq!(attribute("name"), "__hydrozoa__.my/double_v2");
        assert_eq!(attribute("__file__"), "my/double.v2.py");
        assert_eq!(attribute("__package__"), "__hydrozoa__");
        assert_eq!(module.type_name(), "module");
        assert_eq!(module.call_method("double", (21,)).unwrap().extract::<i64>().unwrap(), 42);
        // By import it is the same.
        let imported = session.import("__hydrozoa__.my/double_v2").unwrap();
        assert!(imported.getattr("double").unwrap().is(&module.getattr("double").unwrap()));
        imported.setattr("name", "changed").unwrap();
        assert_eq!(attribute("name"), "changed");
        // A file name hides no module that is imported.
        let json = session.run("mark = 1", "json.py").unwrap();
        assert!(json.getattr("dumps").is_err());
        assert!(session.import("json").unwrap().getattr("dumps").is_ok());
    }
}

#[test]
fn tracebacks_have_the_lines_of_the_code() {
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
        let failing = |code: &str| {
            let error = session.run(code, "failing.py").unwrap_err();
            error.traceback().unwrap().to_owned()
        };
        let traceback = failing("def fail():\n    raise ValueError('first')\nfail()");
        let lines = [
            "File \"failing.py\", line 3, in <module>\n    fail()",
            "File \"failing.py\", line 2, in fail\n    raise ValueError('first')",
        ];
        for line in lines {
            assert!(traceback.contains(line), "{traceback}");
        }
        assert!(!traceback.contains("_hydrozoa"), "{traceback}");
        // Other code of the same name.
        let traceback = failing("1 / 0  # second");
        assert!(traceback.contains("line 1, in <module>\n    1 / 0  # second"), "{traceback}");
    }
}

#[test]
fn code_that_inherits_nothing_from_its_caller_is_compiled_alike() {
    let pool = newest();
    let session = pool.acquire().unwrap();
    let run = session
        .function("run", |session, _| {
            session.run("def f(x: undefined_name): pass", "inner.py").map(|_| ())?;
            session.none()
        })
        .unwrap();
    let code = "from __future__ import annotations\ndef through(run): run()";
    let outer = session.run(code, "outer.py").unwrap();
    // The caller's `from __future__` does not count. From 3.14 on annotations are evaluated late.
    let outcome = outer.call_method("through", (&run,));
    let is_late = pool.python().minor() >= 14;
    assert_eq!(outcome.is_ok(), is_late, "{outcome:?}");
}

#[test]
fn code_of_the_same_name_takes_the_place_and_what_failed_leaves_none() {
    let pool = newest();
    let session = pool.acquire().unwrap();
    let place = "__import__('sys').modules['__hydrozoa__.model'].version";
    let first = session.run("version = 1\ndef get(): return version", "model.py").unwrap();
    let second = session.run("version = 2", "model.py").unwrap();
    assert_eq!(text(&session, place), "2");
    assert_eq!(first.call_method("get", ()).unwrap().extract::<i64>().unwrap(), 1);
    assert!(session.run("version = 3\nraise KeyError", "model.py").is_err());
    assert!(session.run("version = (", "model.py").is_err());
    assert_eq!(text(&session, place), "2");
    drop(second);
    assert!(session.run("raise KeyError", "other.py").is_err());
    assert!(session.eval("__import__('sys').modules['__hydrozoa__.other']").is_err());
}

#[test]
fn a_module_lives_as_long_as_something_of_it_is_used() {
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
        let is_there = "__import__('gc').collect() and False or '__hydrozoa__.lived' in __import__('sys').modules";
        let code = "
import pickle
class Lived:
    def method(self): pass
def use(): return pickle.loads(pickle.dumps(Lived()))
";
        let function = session.run(code, "lived.py").unwrap().getattr("use").unwrap();
        assert_eq!(text(&session, is_there), "True");
        let object = function.call(()).unwrap();
        drop(function);
        // The object has a method.
        assert_eq!(text(&session, is_there), "True");
        drop(object);
        assert_eq!(text(&session, is_there), "False");
    }
}

/// The bytes that the process has in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_hundred_thousand_snippets_leave_nothing_behind() {
    alone(PATIENCE, || {
        let pool = newest();
        let session = pool.acquire().unwrap();
        let round = |first: usize| {
            for number in first..first + 20_000 {
                let name = format!("snippet-{number}.py");
                let module = session.run("def f(): return 42\nanswer = f()", &name).unwrap();
                drop(module);
            }
            text(&session, "__import__('gc').collect()");
        };
        round(0);
        let settled = resident();
        (1..5).for_each(|number| round(number * 20_000));
        let grown = resident().saturating_sub(settled);
        assert!(grown < 4 << 20, "{grown} bytes more after 80,000 snippets");
        let left = "len([name for name in __import__('sys').modules if 'snippet' in name])";
        assert_eq!(text(&session, left), "0");
        // Nor do those that fail leave lines of theirs.
        let failed = session.run("1 / 0", "failed.py").unwrap_err();
        assert!(matches!(failed, Error::Python { .. }));
    });
}

#[test]
fn an_object_of_a_class_moves_to_an_interpreter_that_has_run_the_same_code() {
    let pool = pools(2).last().unwrap();
    let code = "class Counter:\n    def __init__(self, n): self.n = n\n    def next(self): return self.n + 1";
    let one = pool.acquire_on(0).unwrap();
    let module = one.run(code, "counter.py").unwrap();
    let movable = pool.create_movable(&module.call_method("Counter", (41,)).unwrap()).unwrap();
    let other = pool.acquire_on(1).unwrap();
    assert!(movable.to_object(&other).is_err());
    let _module = other.run(code, "counter.py").unwrap();
    let counter = movable.to_object(&other).unwrap();
    assert_eq!(counter.call_method("next", ()).unwrap().extract::<i64>().unwrap(), 42);
}
