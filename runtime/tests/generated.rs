//! Code that the standard library generates: one interpreter compiles it for all, and nobody can tell.

mod pythons;

use hydrozoa::{Builder, Session};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use pythons::{builders, pythons};
use std::process::Command;

/// Classes with all that `dataclasses` writes methods for, and a description of the code of these.
const CLASSES: &str = r#"
import dataclasses, hashlib, sys
from dataclasses import dataclass, field
from typing import ClassVar

@dataclass
class Plain:
    number: int
    text: str = "a"
    items: list = field(default_factory=list)
    common: ClassVar[int] = 3

@dataclass(order=True, frozen=True)
class Ordered:
    first: float
    second: tuple = ()
    hidden: int = field(default=7, repr=False, compare=False)

@dataclass(kw_only=True, slots=True)
class Slotted(Plain):
    more: "int | None" = None
    def __post_init__(self): self.more = self.number

@dataclass(unsafe_hash=True)
class Hashed:
    value: int
    seed: dataclasses.InitVar[int] = 1
    def __post_init__(self, seed): self.value += seed

made = dataclasses.make_dataclass("Made", [("x", int), ("y", int, 5)])
assert (made(1).y, Slotted(number=4).more, Hashed(1, 2).value) == (5, 4, 3)
assert Ordered(1.0) < Ordered(2.0) and len({Hashed(1), Hashed(1)}) == 1 and Plain(1) == Plain(1) and Plain(1).items == []
try:
    Ordered(1.0).first = 2
    raise AssertionError("it is not frozen")
except dataclasses.FrozenInstanceError:
    pass
try:
    dataclasses.make_dataclass("Wrong", [("class", int)])
    raise AssertionError("a keyword is no name")
except TypeError as error:
    wrong = str(error)

def described(code):
    parts = [code.co_code, code.co_names, code.co_varnames, code.co_filename, code.co_name, code.co_firstlineno, code.co_flags]
    if sys.version_info >= (3, 11):
        parts += [code.co_qualname, list(code.co_positions()), code.co_exceptiontable]
    def shown(const):
        if hasattr(const, "co_code"):
            return described(const)
        # The order of a set's items depends on the seed of hashes.
        return sorted(const) if isinstance(const, frozenset) else const
    return repr((parts, [shown(const) for const in code.co_consts]))

codes = [
    (owner.__name__, name, described(value.__code__))
    for owner in (Plain, Ordered, Slotted, Hashed, made)
    for name, value in sorted(vars(owner).items())
    if hasattr(value, "__code__") and name != "__post_init__"
]
assert len(codes) > 20
description = f"{len(codes)} {wrong} {hashlib.sha256(repr(codes).encode()).hexdigest()}"
"#;

fn description(session: &Session) -> String {
    session.run(CLASSES, "classes.py").unwrap().getattr("description").unwrap().extract().unwrap()
}

#[test]
fn generated_code_of_other_interpreters_is_what_plain_python_compiles() {
    for (minor, library) in pythons() {
        let builder = Builder::default().interpreters(2).python(library);
        let pool = builder.build().unwrap();
        let prefix = pool.python().prefix().to_owned();
        let output = Command::new(prefix.join(format!("bin/python3.{minor}")))
            .args(["-I", "-c", &format!("{CLASSES}\nprint(description)")])
            .output()
            .unwrap();
        let plain = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for interpreter in pool.interpreters() {
            let session = interpreter.session();
            // The second time, the interpreter finds what it has kept itself.
            assert_eq!(description(&session), plain.trim(), "3.{minor}");
            assert_eq!(description(&session), plain.trim(), "3.{minor}");
        }
    }
}

#[test]
fn interpreters_with_other_optimizations_have_code_of_their_own() {
    for builder in builders(1) {
        let plain = builder.clone().build().unwrap();
        let optimized = builder.optimize(2).build().unwrap();
        for (pool, docs) in [(&plain, "'d'"), (&optimized, "None"), (&plain, "'d'")] {
            let session = pool.acquire().unwrap();
            // A text of the program, compiled by a function that calls itself one of `dataclasses`.
            let source = "space = {'__name__': 'dataclasses'}\nexec('def make(text, into): exec(text, space, into)\\nspace = {}', space)
into = {}\nspace['make']('# coding: latin-1\\nletter = \"\u{e9}\"\\n', into)\nassert into['letter'] == '\\xe9', into
space['make']('def f():\\n \"d\"\\n assert False\\n', into)\ndocs = repr(into['f'].__doc__)";
            let module = session.run(source, "optimized.py").unwrap();
            assert_eq!(module.getattr("docs").unwrap().extract::<String>().unwrap(), docs);
        }
    }
}

/// Defines a hundred classes, and says how much processor time that took.
const HUNDRED: &str = "
import dataclasses, time
begin = time.thread_time()
for number in range(100):
    fields = [(f'field_{number}_{place}', int, place) for place in range(8)]
    dataclasses.make_dataclass(f'Class{number}', fields, frozen=True, order=True)
spent = time.thread_time() - begin
";

#[test]
fn a_dataclass_is_compiled_by_one_interpreter_for_all() {
    alone(PATIENCE, || {
        for builder in builders(3) {
            let pool = builder.build().unwrap();
            let spent = |interpreter: &hydrozoa::Interpreter| -> f64 {
                let session = interpreter.session();
                let module = session.run(HUNDRED, "hundred.py").unwrap();
                module.getattr("spent").unwrap().extract().unwrap()
            };
            let all = pool.interpreters();
            let (compiled, found) = (spent(&all[0]), spent(&all[1]).min(spent(&all[2])));
            println!("3.{}: {compiled:.3} s, then {found:.3} s", pool.python().minor());
            assert!(found < 0.8 * compiled, "{found} s beside {compiled} s");
        }
    });
}
