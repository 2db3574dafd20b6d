//! Imports that a profile guides, with packages that the tests write, on every Python of the machine that can have them.

mod pythons;

use hydrozoa::{Builder, Error, ImportProfile, Imports, Pool, Result, Session};
use hydrozoa_testkit::alone::alone;
use pythons::{builders, pythons};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Every module notes its import in `sys.trace`.
const NOTE: &str = "import sys\nsys.__dict__.setdefault('trace', []).append(__name__)\n";

/// A folder with modules: names with slashes, and code behind [`NOTE`]. A line of code has its number plus two.
fn world(modules: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::with_prefix("imports-").unwrap();
    for (name, code) in modules {
        let path = folder.path().join(format!("{name}.py"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{NOTE}{code}")).unwrap();
    }
    folder
}

/// Settings for one interpreter of each Python below 3.15, which imports lazily itself.
fn settings(folder: &Path) -> impl Iterator<Item = Builder> {
    let count = pythons().keys().filter(|minor| **minor < 15).count();
    builders(1).take(count).map(move |builder| builder.path(folder))
}

fn run(session: &Session, code: &str) -> Result<()> {
    session.run(code, "program.py").map(drop)
}

/// The modules of the world that a program has imported, in order.
fn trace(session: &Session) -> Vec<String> {
    session.eval("list(__import__('sys').trace)").unwrap().extract().unwrap()
}

/// A pool whose profile comes from `work`.
fn guided(builder: &Builder, work: &str) -> Pool {
    let record = |pool: &Pool| run(&pool.acquire()?, work);
    let profile = builder.record_imports(record).unwrap();
    builder.clone().imports(Imports::Profile(profile)).build().unwrap()
}

/// Ways to read a name `value` of the module `user`, which is imported from `target`. Each is tried in an interpreter of its own.
const READS: [&str; 17] = [
    "assert user.read() == 42",
    "assert user.value == 42",
    "assert getattr(user, 'value') == 42 and hasattr(user, 'value')",
    "assert user.own()['value'] == 42",
    "assert user.own().get('value') == 42",
    "assert 'value' in user.own()",
    "assert eval('value', user.own()) == 42",
    "exec('assert value == 42', user.own())",
    "assert vars(user)['value'] == 42",
    "assert dict(vars(user))['value'] == 42 and 42 in vars(user).values()",
    "assert dict(user.read.__globals__)['value'] == 42",
    "copied = {}; copied.update(user.read.__globals__); assert eval('value + 0', copied) == 42 and user.value == 42",
    "from user import value; assert value == 42",
    "space = {}; exec('from user import *', space); assert space['value'] == 42",
    "import inspect; assert dict(inspect.getmembers(user))['value'] == 42",
    "user.forget(); assert not hasattr(user, 'value')",
    "user.rebind(7); assert user.value == 7 and user.read() == 7",
];

#[test]
fn a_name_is_bound_when_it_is_read_in_whatever_way() {
    let folder = world(&[
        ("target", "value = 42"),
        (
            "user",
            "from target import value\ndef read(): return value\ndef own(): return read.__globals__\n\
             def forget():\n    global other\n    del read.__globals__['value']\n\
             def rebind(new): read.__globals__['value'] = new",
        ),
    ]);
    for builder in settings(folder.path()) {
        let record = |pool: &Pool| run(&pool.acquire()?, "import user\nuser.read()");
        let profile = builder.record_imports(record).unwrap();
        for read in READS {
            let pool = builder.clone().imports(Imports::Profile(profile.clone())).build().unwrap();
            let session = pool.acquire().unwrap();
            run(&session, "import user\nassert 'value' in dir(user)").unwrap();
            assert_eq!(trace(&session), ["user"], "{read}");
            run(&session, &format!("import user\n{read}")).unwrap();
            assert_eq!(trace(&session), ["user", "target"], "{read}");
            // Nothing is left of it: a plain module with a plain dict.
            run(
                &session,
                "import user, types\nassert type(user) is types.ModuleType\nassert all(type(name) is str for name in vars(user))",
            )
            .unwrap();
        }
    }
}

#[test]
fn an_import_that_code_could_miss_is_made_where_it_stands() {
    let folder = world(&[
        ("attempted", ""),
        ("conditional", ""),
        ("inner", ""),
        ("starred", "star = 1"),
        ("effects", ""),
        ("tree/__init__", "class Leaf: pass"),
        ("tree/effects", ""),
        ("twice", "name = 1"),
        ("again", "name = 2"),
        ("listed", "name = 3"),
        (
            "lister",
            "from listed import name as listed_name\nnames = [name for name in globals() if name == 'listed_name']",
        ),
        (
            "namesake/__init__",
            "from .function import function\nfrom .other import other_name as renamed",
        ),
        ("namesake/function", "def function(): return 'function'"),
        ("namesake/other", "other_name = 1"),
        ("deleting/__init__", "from .part import value\ndel part"),
        ("deleting/part", "value = 1"),
        ("late", "value = 1"),
        (
            "user",
            "try:\n    import attempted\nexcept ImportError: pass\nif sys: import conditional\nclass C:\n    import inner\n\
             from starred import *\nimport effects\nimport tree.effects\nfrom twice import name\nfrom again import name\n\
             import lister, namesake, deleting, late\n\
             def use(): return tree, star, name, lister, namesake, deleting, late.value",
        ),
    ]);
    let all = "import user\nuser.use()\nuser.namesake.function(), user.namesake.renamed, user.lister.names, user.deleting.value";
    for builder in settings(folder.path()) {
        let pool = guided(&builder, all);
        let session = pool.acquire().unwrap();
        run(&session, "import user").unwrap();
        let early = [
            "user",
            "attempted",
            "conditional",
            "inner",
            "starred",
            "effects",
            "tree",
            "tree.effects",
            "twice",
            "again",
        ];
        assert_eq!(trace(&session), early);
        run(
            &session,
            "import user, types\nassert user.use()[1:3] == (1, 2)\n\
             assert user.namesake.function() == 'function' and isinstance(user.namesake.function, types.FunctionType)\n\
             assert user.namesake.renamed == 1 and user.lister.names == ['listed_name'] and user.lister.listed_name == 3\n\
             assert not hasattr(user.deleting, 'part') and user.deleting.value == 1",
        )
        .unwrap();
    }
}

#[test]
fn packages_have_the_submodules_that_import_statements_name() {
    let folder = world(&[
        (
            "pack/__init__",
            "from . import first\nfrom .first import one as uno\n__all__ = ['first', 'uno']",
        ),
        ("pack/first", "one = 1"),
        ("pack/deep/__init__", ""),
        (
            "pack/deep/down",
            "from .. import first\nfrom ..first import one\ntwo = 2\ndef sum(): return first.one + one + two",
        ),
        (
            "pack/cycle_a",
            "from pack import cycle_b\ndef a(): return cycle_b.b()\ndef c(): return 'c'",
        ),
        ("pack/cycle_b", "import pack.cycle_a\ndef b(): return pack.cycle_a.c()"),
        ("pack/elsewhere", ""),
        (
            "user",
            "import pack.deep.down\nimport pack.cycle_a as cycle\nimport xml.dom.minidom\n\
                  def use(): return pack.deep.down.sum(), cycle.a(), xml.dom.minidom.Node.TEXT_NODE",
        ),
        ("brings", "import pack.elsewhere\ndef use(): return pack.elsewhere"),
    ]);
    for builder in settings(folder.path()) {
        let pool = guided(&builder, "import user, brings\nuser.use()\nuser.pack.uno\nbrings.use()");
        let session = pool.acquire().unwrap();
        run(&session, "import user").unwrap();
        assert_eq!(trace(&session), ["user"]);
        run(&session, "import user\nassert user.use() == (4, 'c', 3)").unwrap();
        // Another module's statement makes it an attribute in plain Python.
        run(&session, "import pack\nassert pack.elsewhere.__name__ == 'pack.elsewhere'").unwrap();
        run(&session, "from pack import *\nassert uno == 1 and first.one == 1").unwrap();
    }
}

#[test]
fn the_first_need_beyond_the_profile_imports_the_rest_in_plain_python_s_order() {
    let folder = world(&[
        (
            "lib/__init__",
            "from .core import run\nfrom .registry import table\nfrom . import plugins, extra",
        ),
        ("lib/registry", "table = {}"),
        ("lib/core", "from .heavy import work\ndef run(): return 'ran'\ndef far(): return work()"),
        (
            "lib/heavy",
            "from .registry import table\nfrom .heavier import more\ntable['heavy'] = len(table)\ndef work(): return more",
        ),
        ("lib/heavier", "from .registry import table\ntable['heavier'] = len(table)\nmore = 5"),
        ("lib/plugins", "from .registry import table\ntable['plugins'] = len(table)"),
        ("lib/extra", "from .registry import table\ntable['extra'] = len(table)"),
        ("stranger", "import lib\nseen = dict(lib.table)"),
    ]);
    let beyond = [
        "import lib\nassert lib.core.far() == 5",
        "import lib\nlib.plugins",
        "import lib.extra",
        "from lib import extra",
        "import importlib\nimportlib.import_module('lib.heavier')",
        // Not part of the profile at all: it may rely on everything.
        "import stranger\nassert len(stranger.seen) == 4",
        "import lib\nlist(vars(lib).items())",
    ];
    for builder in settings(folder.path()) {
        let eager = builder.clone().build().unwrap();
        let session = eager.acquire().unwrap();
        run(&session, "import lib").unwrap();
        let stock = trace(&session);
        let table: Vec<String> =
            session.eval("list(__import__('lib').table)").unwrap().extract().unwrap();
        let profile = builder
            .record_imports(|pool| run(&pool.acquire()?, "import lib\nassert lib.run() == 'ran'"))
            .unwrap();
        let left: Vec<_> = profile.left_out().collect();
        assert_eq!(left, stock[2..].iter().collect::<Vec<_>>());
        for code in beyond {
            let pool = builder.clone().imports(Imports::Profile(profile.clone())).build().unwrap();
            let session = pool.acquire().unwrap();
            run(&session, "import lib\nassert lib.run() == 'ran'").unwrap();
            assert_eq!(trace(&session), ["lib", "lib.core"]);
            run(&session, code).unwrap();
            let imported: Vec<_> =
                trace(&session).into_iter().filter(|name| name != "stranger").collect();
            let rest: Vec<_> =
                stock.iter().filter(|name| !["lib", "lib.core"].contains(&&***name)).collect();
            assert_eq!(imported[2..].iter().collect::<Vec<_>>(), rest, "{code}");
            let found: Vec<String> =
                session.eval("list(__import__('lib').table)").unwrap().extract().unwrap();
            assert_eq!(found, table, "{code}");
            // From then on nothing is lazy.
            fs::write(folder.path().join("fresh.py"), "import late_one\n").unwrap();
            fs::write(folder.path().join("late_one.py"), NOTE).unwrap();
            run(&session, "import importlib\nimportlib.invalidate_caches()\nimport fresh").unwrap();
            assert_eq!(trace(&session).last().unwrap(), "late_one", "{code}");
        }
    }
}

#[test]
fn an_exception_of_an_import_arrives_where_the_name_is_used_with_both_places() {
    let folder = world(&[
        ("broken", "name = 1"),
        ("there", "thing = 1"),
        ("absent", ""),
        ("missing", "from there import thing\ndef use(): return thing"),
        ("lacking", "from there import thing as other\ndef use(): return other"),
        (
            "user",
            "import broken\nimport absent\n\ndef use():\n    return broken.name\ndef other(): return absent",
        ),
    ]);
    let healthy = |builder: &Builder| {
        let work =
            "import user, missing, lacking\nuser.use(), user.other(), missing.use(), lacking.use()";
        builder.record_imports(|pool| run(&pool.acquire()?, work)).unwrap()
    };
    let profiles: Vec<_> = settings(folder.path()).map(|builder| healthy(&builder)).collect();
    let write = |name: &str, code: &str| {
        fs::write(folder.path().join(name), format!("{NOTE}{code}")).unwrap();
    };
    write("broken.py", "import os\n\nraise ValueError('no use')");
    write("there.py", "");
    write("absent.py", "{}.missing_attribute");
    for (builder, profile) in settings(folder.path()).zip(profiles) {
        let pool = builder.imports(Imports::Profile(profile)).build().unwrap();
        let session = pool.acquire().unwrap();
        run(&session, "import user, missing, lacking").unwrap();
        for _ in 0..2 {
            let error = run(&session, "import user\nuser.use()").unwrap_err();
            let Error::Python { type_name, message, traceback, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!((type_name.as_str(), message.as_str()), ("ValueError", "no use"));
            let places = [
                ("user.py\", line 7, in use", "return broken.name"),
                ("user.py\", line 3, in", "import broken"),
                ("broken.py\", line 5, in", "raise ValueError"),
            ];
            let mut rest = traceback.as_str();
            for (place, line) in places {
                let at = rest
                    .find(place)
                    .unwrap_or_else(|| panic!("no {place:?} in order in\n{traceback}"));
                rest = &rest[at..];
                assert!(rest.lines().nth(1).unwrap().contains(line), "{traceback}");
            }
        }
        let text = |code: &str| run(&session, code).unwrap_err().to_string();
        let lacks = text("import missing\nmissing.use()");
        assert!(
            lacks.starts_with("ImportError: cannot import name 'thing' from 'there'"),
            "{lacks}"
        );
        let lacks = text("import lacking\nlacking.other");
        assert!(
            lacks.starts_with("ImportError: cannot import name 'thing' from 'there'"),
            "{lacks}"
        );
        // The attribute of a module would be an absent one.
        assert!(
            text("import user\nuser.absent")
                .starts_with("ImportError: user.absent cannot be imported: 'dict' object has no")
        );
    }
}

#[test]
fn four_interpreters_and_their_threads_bind_names_at_once() {
    let mut modules: Vec<(String, String)> = (0..40)
        .map(|number| {
            let code = match number {
                0 => "value = 0".to_owned(),
                _ => format!("import time\nfrom part{} import value as former\ntime.sleep(0.001)\nvalue = former + 1", number - 1),
            };
            (format!("part{number}"), code)
        })
        .collect();
    let imports: String = (0..40)
        .map(|number| format!("from part{number} import value as value{number}\n"))
        .collect();
    let names = (0..40).map(|number| format!("value{number}")).collect::<Vec<_>>().join(", ");
    modules.push(("user".to_owned(), format!("{imports}def sum_up(): return sum(({names}))")));
    let modules: Vec<_> =
        modules.iter().map(|(name, code)| (name.as_str(), code.as_str())).collect();
    let folder = world(&modules);
    for builder in settings(folder.path()) {
        let profile = builder
            .record_imports(|pool| run(&pool.acquire()?, "import user\nuser.sum_up()"))
            .unwrap();
        let pool = builder.imports(Imports::Profile(profile)).interpreters(4).build().unwrap();
        thread::scope(|scope| {
            for interpreter in pool.interpreters() {
                for _ in 0..3 {
                    let interpreter = interpreter.clone();
                    scope.spawn(move || {
                        let session = interpreter.session();
                        let sum = session.eval("__import__('user').sum_up()").unwrap();
                        assert_eq!(sum.extract::<i64>().unwrap(), 780);
                    });
                }
            }
        });
        for interpreter in pool.interpreters() {
            assert_eq!(trace(&interpreter.session()).len(), 41);
        }
    }
}

/// Look-ups of names of the module, of its imports and of builtins.
const LOOK_UPS: &str = "from target import value
def own(): pass
def look():
    for _ in range(200000):
        value; own; len; isinstance; value; own; len; isinstance";

/// Time for look-ups with bound names, divided by plain Python's.
fn look_ups(builder: &Builder, work: &str) -> f64 {
    let plain = builder.clone().build().unwrap();
    let lazy = guided(builder, work);
    run(&plain.acquire().unwrap(), work).unwrap();
    let time = |pool: &Pool| -> f64 {
        let code = "[__import__('time').thread_time(), __import__('user').look(), __import__('time').thread_time()]";
        let session = pool.acquire().unwrap();
        let times = session.eval(code).unwrap();
        let times: Vec<Option<f64>> = times.extract().unwrap();
        times[2].unwrap() - times[0].unwrap()
    };
    // The least of interleaved rounds: a neighbour on the machine adds, and never takes away.
    let rounds: Vec<_> = (0..25).map(|_| (time(&plain), time(&lazy))).collect();
    let least =
        |pick: fn(&(f64, f64)) -> f64| rounds.iter().map(pick).fold(f64::INFINITY, f64::min);
    let ratio = least(|round| round.1) / least(|round| round.0);
    println!("look-ups with bound names, in plain Python's time: {ratio:.3}");
    ratio
}

#[test]
fn look_ups_cost_what_they_cost_in_plain_python_once_the_names_are_bound() {
    alone(Duration::from_secs(100), || {
        let folder = world(&[("target", "value = 42"), ("user", LOOK_UPS)]);
        for builder in settings(folder.path()) {
            let work = "import user\nuser.look()";
            // Interpreters lie at other addresses in each attempt, and some may lie badly in a processor's caches.
            let ratio = (0..4).map(|_| look_ups(&builder, work)).find(|ratio| *ratio < 1.2);
            assert!(ratio.is_some(), "look-ups take more than 1.2 times as long in every attempt");
        }
    });
}

#[test]
fn a_profile_is_kept_in_a_file_and_what_is_none_is_named() {
    let folder = world(&[("lib", "import unused_one\ndef f(): unused_one"), ("unused_one", "")]);
    let builder = settings(folder.path()).next().unwrap();
    let profile = builder.record_imports(|pool| run(&pool.acquire()?, "import lib")).unwrap();
    let file = folder.path().join("app.imports");
    profile.save(&file).unwrap();
    let python = profile.python_version().unwrap();
    let text = format!("hydrozoa imports 1\n= python {python}\n+ lib\n- unused_one\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(ImportProfile::load(&file).unwrap(), profile);
    fs::write(&file, "nonsense").unwrap();
    for (path, reason) in
        [(file.clone(), "does not begin with"), (folder.path().join("none"), "No such file")]
    {
        let error = ImportProfile::load(&path).unwrap_err().to_string();
        assert!(error.contains(&*path.to_string_lossy()) && error.contains(reason), "{error}");
    }
    let error = profile.save(folder.path().join("no/such")).unwrap_err().to_string();
    assert!(error.contains("no/such") && error.contains("No such file"), "{error}");
}

/// The metadata of a distribution with one module, as installers write them.
fn install(folder: &Path, module: &str, release: &str) {
    let metadata = folder.join(format!("{module}_dist-{release}.dist-info"));
    fs::create_dir_all(&metadata).unwrap();
    let text = format!("Metadata-Version: 2.1\nName: {module}_dist\nVersion: {release}\n");
    fs::write(metadata.join("METADATA"), text).unwrap();
    fs::write(metadata.join("top_level.txt"), format!("{module}\n")).unwrap();
}

#[test]
fn another_release_than_the_recorded_one_is_imported_as_plain_python_does() {
    for builder in settings(Path::new("/")) {
        let folder = world(&[
            ("target", "value = 42"),
            ("own", "from target import value\ndef read(): return value"),
            ("user", "from target import value\nimport own\ndef read(): return value, own.read()"),
        ]);
        let builder = builder.path(folder.path());
        install(folder.path(), "user", "1.0");
        install(folder.path(), "target", "1.0");
        let work = "import user\nuser.read()";
        let profile = builder.record_imports(|pool| run(&pool.acquire()?, work)).unwrap();
        let text = profile.to_string();
        for line in ["= user user_dist-1.0.dist-info", "= target target_dist-1.0.dist-info"] {
            assert!(text.lines().any(|found| found == line), "no {line:?} in\n{text}");
        }
        let guided = |profile: &ImportProfile| {
            builder.clone().imports(Imports::Profile(profile.clone())).build().unwrap()
        };
        let pool = guided(&profile);
        run(&pool.acquire().unwrap(), "import user").unwrap();
        assert_eq!(trace(&pool.acquire().unwrap()), ["user"]);
        let rename = |module: &str, from: &str, to: &str| {
            let path =
                |release: &str| folder.path().join(format!("{module}_dist-{release}.dist-info"));
            fs::rename(path(from), path(to)).unwrap();
        };

        // The first package: everything is imported where it stands.
        rename("user", "1.0", "1.1");
        let pool = guided(&profile);
        let session = pool.acquire().unwrap();
        run(&session, "import user").unwrap();
        assert_eq!(trace(&session), ["user", "target", "own"]);
        rename("user", "1.1", "1.0");

        // A later one: what was left out so far is imported with it.
        rename("target", "1.0", "2.0");
        let pool = guided(&profile);
        let session = pool.acquire().unwrap();
        run(&session, "import user").unwrap();
        assert_eq!(trace(&session), ["user"]);
        run(&session, "import user\nassert user.value == 42").unwrap();
        assert_eq!(trace(&session).len(), 3);
        let reason =
            session.import("_hydrozoa.guided_imports").unwrap().call_method("report", ()).unwrap();
        assert_eq!(reason.extract::<String>().unwrap(), "target");

        // Another Python does not use it.
        let minor = profile.python_version().unwrap();
        let other = text.replace(&format!("= python {minor}\n"), "= python 3.9\n");
        let pool = guided(&other.parse().unwrap());
        let session = pool.acquire().unwrap();
        run(&session, "import user").unwrap();
        assert_eq!(trace(&session), ["user", "target", "own"]);
    }
}

#[test]
fn a_package_with_imports_for_their_effects_on_the_work_is_imported_where_its_statements_stand() {
    let folder = world(&[
        ("registry/__init__", "from . import table, entries\nfrom . import unused"),
        ("registry/table", "known = {}\ndef enter(function): known[function.__name__] = function"),
        (
            "registry/entries",
            "from registry.table import enter\ndef double(x): return 2 * x\nenter(double)",
        ),
        ("registry/unused", ""),
        ("second/__init__", "import registry\nfrom . import more"),
        (
            "second/more",
            "from registry.table import enter\ndef triple(x): return 3 * x\nenter(triple)",
        ),
        ("plain/__init__", "from . import left_out"),
        ("plain/left_out", ""),
        (
            "app",
            "import plain, registry, second\ndef use(name, x): return plain and second and registry.table.known[name](x)",
        ),
    ]);
    for builder in settings(folder.path()) {
        let work = |pool: &Pool| {
            let session = pool.acquire()?;
            let app = session.import("app")?;
            let double = app.call_method("use", ("double", 21))?.extract::<i64>()?;
            Ok((double, app.call_method("use", ("triple", 14))?.extract::<i64>()?))
        };
        let profile = builder.record_imports(work).unwrap();
        let mut eager: Vec<&str> = profile.eager().collect();
        eager.sort_unstable();
        assert_eq!(eager, ["registry", "second"]);
        assert_eq!(profile.left_out().collect::<Vec<_>>(), ["plain.left_out"]);
        assert_eq!(profile.to_string().parse::<ImportProfile>().unwrap(), profile);
        let pool = builder.imports(Imports::Profile(profile)).build().unwrap();
        assert_eq!(work(&pool).unwrap(), (42, 42));
        let trace = trace(&pool.acquire().unwrap());
        assert!(trace.iter().any(|name| name == "registry.unused"), "{trace:?}");
        assert!(!trace.iter().any(|name| name == "plain.left_out"), "{trace:?}");
    }
}
