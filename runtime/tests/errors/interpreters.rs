//! Errors of pools, sessions and calls: [`hydrozoa::Error`].

use crate::pythons::{builders, pool, pythons, without_packages};
use crate::{directory, says};
use hydrozoa::convert::OutOfRange;
use hydrozoa::{DataType, Device, DeviceError, Error, Integer, Pool, Session, Tensor};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A function that loops until it is interrupted.
fn endless(session: &Session) -> hydrozoa::Object<'_> {
    let namespace = session.run("def endless():\n    while True: pass", "endless.py").unwrap();
    namespace.getattr("endless").unwrap()
}

#[test]
fn an_exception_of_python_has_its_type_its_text_and_its_place() {
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let error = session.run("raise KeyError('colour')", "model.py").unwrap_err();
    assert!(matches!(error, Error::Python { .. }), "{error:?}");
    says(&error, &["KeyError: 'colour'"]);
    assert!(error.traceback().unwrap().contains("File \"model.py\", line 1"));
}

#[test]
fn an_interrupted_call_says_by_what_and_where_it_was() {
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let endless = endless(&session);
    let handle = session.interrupt_handle();
    let error = thread::scope(|scope| {
        let call = scope.spawn(|| endless.call(()).unwrap_err());
        while !call.is_finished() {
            handle.interrupt();
            thread::sleep(Duration::from_millis(5));
        }
        call.join().unwrap()
    });
    assert!(matches!(error, Error::Interrupted { .. }), "{error:?}");
    says(
        &error,
        &[
            "the call was interrupted by a handle of its session (Error::traceback says where it was)",
        ],
    );
    assert!(error.traceback().unwrap().contains("in endless"));
}

#[test]
fn a_call_that_is_too_late_says_where_it_was_and_what_sets_the_limit() {
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let endless = endless(&session);
    let limit = Duration::from_millis(300);
    let error = session.with_deadline(limit, || endless.call(())).unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error:?}");
    says(
        &error,
        &["exceeded its deadline", "Error::traceback", "Session::with_deadline sets the limit)"],
    );
    assert!(error.traceback().unwrap().contains("in endless"));
}

#[test]
fn a_crash_that_is_contained_says_where_it_was() {
    let builder = Pool::builder().interpreters(1).python(pythons().values().next().unwrap());
    let pool = builder.contain_crashes(true).build().unwrap();
    let session = pool.acquire().unwrap();
    let error = session.run("import ctypes\nctypes.string_at(0)", "crash.py").unwrap_err();
    assert!(matches!(&error, Error::Crashed { report } if report.contains("line 2 in <module>")));
    let words = "SIGSEGV in interpreter 0 (index 0): no memory is mapped at 0x0";
    says(&error, &["the interpreter has crashed (Error::Crashed has the report): ", words]);
}

#[test]
fn a_pool_s_function_hears_of_a_contained_crash_before_the_replacement() {
    let (heard, hears) = mpsc::channel();
    let builder = Pool::builder().interpreters(1).python(pythons().values().next().unwrap());
    let builder = builder.contain_crashes(true).on_crashed(move |interpreter, report| {
        let generation = interpreter.pool().interpreters()[0].generation();
        heard.send((interpreter.has_crashed(), generation, report.to_owned())).unwrap();
    });
    let pool = builder.build().unwrap();
    for generation in 0..2 {
        let session = pool.acquire().unwrap();
        let error = session.run("import ctypes\nctypes.string_at(0)", "crash.py").unwrap_err();
        let Error::Crashed { report } = error else { panic!("{error:?}") };
        let told = hears.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(told, (true, generation, report));
        drop(session);
        while pool.interpreters()[0].generation() == generation {
            thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(hears.try_recv().is_err());
}

#[test]
fn a_crash_while_an_interpreter_starts_is_contained_too() {
    for (minor, library) in pythons() {
        let (venv, packages) = without_packages("crashes-at-start", *minor, library);
        let builder = || Pool::builder().interpreters(1).venv(&venv).contain_crashes(true);
        let pool = builder().build().unwrap();
        let line = "import ctypes; ctypes.string_at(0)\n";
        fs::write(packages.join("crash.pth"), line).unwrap();
        let error = builder().build().unwrap_err();
        assert!(matches!(&error, Error::Crashed { .. }), "{error:?}");
        says(&error, &["SIGSEGV in interpreter ", "no memory is mapped at 0x0"]);
        let error = pool.replace(0).unwrap_err();
        assert!(matches!(&error, Error::Crashed { .. }), "{error:?}");
        fs::remove_file(packages.join("crash.pth")).unwrap();
        assert_eq!(pool.acquire().unwrap().eval("6 * 7").unwrap().extract::<i64>().unwrap(), 42);
        drop(pool.replace(0).unwrap());
        assert_eq!(pool.acquire().unwrap().eval("6 * 7").unwrap().extract::<i64>().unwrap(), 42);
    }
}

#[test]
fn a_libpython_that_cannot_be_loaded_is_named_by_the_loader() {
    let (minor, library) = pythons().iter().next().unwrap();
    let place = directory("damaged");
    fs::create_dir_all(place.join(format!("lib/python3.{minor}"))).unwrap();
    fs::write(place.join(format!("lib/python3.{minor}/os.py")), "").unwrap();
    let damaged = place.join(format!("lib/libpython3.{minor}.so.1.0"));
    let whole = fs::read(library).unwrap();
    fs::write(&damaged, &whole[..1 << 19]).unwrap();
    let error = Pool::builder().python(&damaged).interpreters(1).build().unwrap_err();
    assert!(matches!(error, Error::Load(_)), "{error:?}");
    says(
        &error,
        &[damaged.to_str().unwrap(), "not a loadable ELF image", "or install the file again)"],
    );
}

#[test]
fn a_python_that_is_not_found_is_named_with_the_reason() {
    let place = directory("nothing");
    let error = Pool::builder().python(&place).build().unwrap_err();
    assert!(matches!(error, Error::PythonNotFound { .. }), "{error:?}");
    let parts = ["no usable Python was found\n  ", place.to_str().unwrap(), "name one of these"];
    says(&error, &parts);
}

#[test]
fn an_interpreter_that_does_not_start_says_which_and_what_it_needs() {
    let builder = builders(1).next().unwrap();
    let error = builder.memory_limit(100_000).build().unwrap_err();
    assert!(matches!(error, Error::Start { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with("interpreter 0 did not start: "), "{text}");
    assert!(text.contains("bytes of memory, and its limit is 100000"), "{text}");
}

#[test]
fn a_value_of_another_form_is_named_with_the_form_asked_for() {
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let error = session.eval("'seven'").unwrap().extract::<i64>().unwrap_err();
    assert!(matches!(error, Error::Convert { .. }), "{error:?}");
    says(&error, &["cannot convert str to int: it is of another type"]);
    let error = session.eval("256").unwrap().extract::<u8>().unwrap_err();
    says(&error, &["cannot convert int to u8: ", "0..=255; take a wider type, or Integer"]);
    let error: OutOfRange = u8::try_from(&Integer::from(256_i32)).unwrap_err();
    says(&error, &["the value lies outside of 0..=255; take a wider type, or Integer"]);
}

#[test]
fn an_object_of_another_interpreter_is_named_with_the_way_to_move_it() {
    let pool = pool(2);
    let (one, other) = (pool.acquire_on(0).unwrap(), pool.acquire_on(1).unwrap());
    let object = one.eval("[]").unwrap();
    let error = other.object_from(&object).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
    let parts = [
        "an object of interpreter 0 was passed to interpreter 1; ",
        "objects move between interpreters as a Movable or by value",
    ];
    says(&error, &parts);
}

#[test]
fn an_exception_of_an_interpreter_that_has_ended_says_what_keeps_it() {
    let ended = pool(1);
    let error = ended.acquire().unwrap().eval("1 / 0").unwrap_err();
    drop(ended);
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let error = error.exception().unwrap().value(&session).unwrap_err();
    assert!(matches!(error, Error::Ended { .. }), "{error:?}");
    let parts = ["interpreter 0 has ended, and this object with it: ", "in another interpreter"];
    says(&error, &parts);
}

#[test]
fn an_object_of_an_interpreter_that_has_ended_is_named_with_what_keeps_it() {
    let pool = pool(1);
    let handle = pool.acquire().unwrap().eval("[]").unwrap().keep();
    drop(pool);
    let error = handle.session().unwrap_err();
    assert!(matches!(error, Error::Ended { .. }), "{error:?}");
    let parts = [
        "interpreter 0 has ended, and this object with it: keep its Pool or Interpreter as long as the object is used, ",
        "or make the object again in another interpreter",
    ];
    says(&error, &parts);
}

#[test]
fn an_error_of_the_application_is_named_by_its_own_text() {
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let read = session.function("read", |session, _| {
        let content = fs::read("/nowhere").map_err(Error::host)?;
        session.object_from(&content)
    });
    let error = read.unwrap().call(()).unwrap_err();
    assert!(matches!(error, Error::Host(_)), "{error:?}");
    says(&error, &["No such file or directory (os error 2)"]);
}

#[test]
fn an_index_without_an_interpreter_is_named_with_the_number_there_are() {
    let error = pool(2).acquire_on(2).unwrap_err();
    assert!(matches!(error, Error::NoSuchInterpreter { index: 2, count: 2 }), "{error:?}");
    let expected =
        "there is no interpreter 2: the pool has 2, numbered from 0 (Pool::resize adds some)";
    says(&error, &[expected]);
}

#[test]
fn a_pool_without_an_idle_interpreter_says_how_many_are_leased_and_what_to_do() {
    let pool = pool(2);
    let _leased = [pool.acquire_on(0).unwrap(), pool.acquire_on(1).unwrap()];
    let way_out = ": end sessions sooner, wait longer (Pool::acquire_timeout), allow several on one \
                   (Builder::max_sessions), or add some (Pool::resize)";
    let error = pool.try_acquire().unwrap_err();
    assert!(matches!(error, Error::Busy { interpreters: 2, sessions: 1, .. }), "{error:?}");
    says(&error, &[&format!("all 2 interpreters are leased{way_out}")]);
    let error = pool.acquire_timeout(Duration::from_millis(20)).unwrap_err();
    says(&error, &["all 2 interpreters are leased, also after ", &format!(" ms{way_out}")]);
}

#[test]
fn a_pool_with_as_many_sessions_as_it_may_have_says_how_many_and_what_to_do() {
    let pool = builders(1).next().unwrap().max_sessions(2).build().unwrap();
    let _leased = [pool.acquire().unwrap(), pool.acquire().unwrap()];
    let error = pool.try_acquire().unwrap_err();
    assert!(matches!(error, Error::Busy { interpreters: 1, sessions: 2, .. }), "{error:?}");
    let parts = [
        "all 1 interpreters have 2 sessions: end sessions sooner, wait longer (Pool::acquire_timeout), ",
        "allow more (Builder::max_sessions), or add interpreters (Pool::resize)",
    ];
    says(&error, &parts);
}

#[test]
fn an_interpreter_that_was_to_end_and_is_in_use_says_by_what() {
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let old = pool.replace(0).unwrap();
    let error = old.close(Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, Error::InUse { sessions: 1, .. }), "{error:?}");
    says(
        &error,
        &[
            "interpreter 0 has not ended within 20 ms",
            "a session on it is open",
            "drop what is left, and it ends by itself",
        ],
    );
    drop(session);
}

#[test]
fn a_stack_without_room_is_named_with_its_size_and_where_to_set_it() {
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let error = thread::scope(|scope| {
        let small = thread::Builder::new().stack_size(128 << 10);
        small.spawn_scoped(scope, || session.eval("1").map(drop)).unwrap().join().unwrap()
    });
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Stack { .. }), "{error:?}");
    let parts =
        ["this thread has ", " KiB of stack left, and Python needs ", " KiB: ", "stack_size; "];
    says(&error, &[&parts[..], &["8 MiB are what Python's own limits are made for)"]].concat());
}

#[test]
fn settings_that_cannot_be_met_say_which_and_what_to_do() {
    let is_configuration = |error: Error, parts: &[&str]| {
        assert!(matches!(error, Error::Configuration(_)), "{error:?}");
        says(&error, parts);
    };
    let builder = || builders(1).next().unwrap();
    let none = "a pool needs at least one interpreter: ask for 1 or more";
    is_configuration(builder().interpreters(0).build().unwrap_err(), &[none]);
    let refused = builder().share("lib[x.so").build().unwrap_err();
    is_configuration(refused, &["\"lib[x.so\"", "; LibraryRules describes the form"]);
    let refused = builder().environment([("A=B", "1")]).build().unwrap_err();
    is_configuration(refused, &["\"A=B\", and a name ends before `=`: change it or leave it out"]);
    let refused = builder().arguments(["a\0b"]).build().unwrap_err();
    is_configuration(refused, &["\"a\\0b\" contains a NUL byte", ": take it out"]);
    let refused = builder().warning("a\0b").build().unwrap_err();
    is_configuration(
        refused,
        &[
            "\"a\\0b\" contains a NUL byte, which no argument, flag or path of Python can: take it out",
        ],
    );
    let (minor, library) = pythons().iter().next().unwrap();
    let venv = directory("other-version");
    let described = format!("home = /nowhere\nversion = 3.{}.0\n", minor + 1);
    fs::write(venv.join("pyvenv.cfg"), described).unwrap();
    let refused = Pool::builder().python(library).venv(&venv).build().unwrap_err();
    let parts =
        ["the virtual environment ", "other-version is one of Python 3.", "; name no Python, "];
    is_configuration(refused, &[&parts[..], &["and the environment leads to its own"]].concat());
    let pool = pool(1);
    is_configuration(pool.resize(0).unwrap_err(), &[none]);
    let session = pool.acquire().unwrap();
    let refused = session.importer().unwrap_err();
    is_configuration(refused, &["was not acquired from a package (Package::acquire_session)"]);
    let interpreter = session.interpreter().clone();
    drop(pool);
    let refused = interpreter.pool().replace(0).unwrap_err();
    is_configuration(
        refused,
        &["the pool of this interpreter is gone", "; keep a handle of the pool"],
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_what_to_check() {
    let absent = Path::new("/nonexistent/library.so");
    let error = hydrozoa::memory::Usage::of_file(std::process::id(), absent).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
    says(
        &error,
        &["/nonexistent/library.so: No such file or directory (os error 2) (check the path)"],
    );
}

#[test]
fn a_package_that_cannot_be_opened_is_named_with_what_to_check() {
    let error = pool(1).load_package("/nonexistent/model.pt").unwrap_err();
    assert!(matches!(error, Error::Package(_)), "{error:?}");
    says(&error, &["cannot open the package /nonexistent/model.pt: ", " (check the path)"]);
}

/// A build of torch without CUDA, as far as the runtime asks.
const WITHOUT_CUDA: &str = "
import sys, types
versions = types.SimpleNamespace(cuda=None, hip=None)
sys.modules['torch'] = types.SimpleNamespace(__version__='9.9', version=versions)
";

#[test]
fn a_device_that_torch_lacks_is_named_with_the_object_and_what_to_do() {
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    session.run(WITHOUT_CUDA, "torch.py").unwrap();
    let device = Device { kind: 2, index: 0 };
    // SAFETY: it has no elements.
    let tensor = unsafe {
        Tensor::from_raw_parts(
            std::ptr::null_mut(),
            DataType::F32,
            device,
            &[0, 3],
            &[3, 1],
            false,
            (),
        )
    };
    let error = session.object_from(&tensor).unwrap_err();
    assert!(matches!(error, Error::Device(DeviceError { .. })), "{error:?}");
    let parts = [
        "a tensor of shape [0, 3] cannot be on cuda:0: torch 9.9 was built without CUDA; copy it to main memory ",
        "or use interpreters that have the device",
    ];
    says(&error, &parts);
}

#[test]
fn a_panic_of_a_host_function_is_the_caller_s_error_with_the_function_s_name() {
    let pool = pool(1);
    let session = pool.acquire().unwrap();
    let paint = session.function("paint", |_, _| panic!("no brush")).unwrap();
    let code = "def through(paint):\n    paint()";
    let through = session.run(code, "through.py").unwrap().getattr("through").unwrap();
    for error in [paint.call(()).unwrap_err(), through.call((&paint,)).unwrap_err()] {
        assert!(matches!(error, Error::Panic(_)), "{error:?}");
        says(&error, &["the host function 'paint' panicked: no brush"]);
    }
    assert_eq!(session.eval("6 * 7").unwrap().extract::<i64>().unwrap(), 42);
}

#[test]
fn work_whose_results_differ_has_no_profile() {
    let builder = builders(1).next().unwrap();
    let runs = Cell::new(0);
    let outcome = builder.record_imports(|pool| {
        pool.acquire()?.import("json")?;
        runs.set(runs.get() + 1);
        Ok(runs.get())
    });
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::Imports(_)), "{error:?}");
    says(
        &error,
        &[
            "the work does not give the result of its first run when modules are imported at their first use",
            "it gives another result",
            "Use Imports::Eager, or work that gives equal results twice",
        ],
    );
    let work = |pool: &Pool| pool.acquire()?.import("not_there").map(drop);
    says(&builder.record_imports(work).unwrap_err(), &["No module named 'not_there'"]);
}
