//! torch's state of a thread, while interpreters use the thread in turn and inside each other.

mod common;

use common::venv;
use hydrozoa::{Object, Pool, Result, Session};
use hydrozoa_testkit::alone::{PATIENCE, alone};

/// A module that reads torch's state, sets it, and calls a host function in between. The state is whether
/// gradients are recorded, the default device, the number of function modes, and whether inference mode
/// is on.
const STATE: &str = "
import torch
def state():
    x = torch.ones(2, requires_grad=True)
    return ((x * 2).requires_grad, torch.get_default_device().type,
            torch._C._len_torch_function_stack(), torch.is_inference_mode_enabled())
def check(expected):
    assert state() == expected, (state(), expected)
def under_no_grad(inner):
    with torch.no_grad(), torch.device('meta'):
        check((False, 'meta', 1, False))
        inner()
        check((False, 'meta', 1, False))
def under_nothing(inner):
    check((True, 'cpu', 0, False))
    inner()
    check((True, 'cpu', 0, False))
def under_inference(inner):
    with torch.inference_mode():
        inner()
        assert torch.is_inference_mode_enabled()
def on_a_thread(function, inner):
    import threading
    raised = []
    def run():
        try: function(inner)
        except BaseException as error: raised.append(repr(error))
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not raised, raised
";

fn module<'s>(session: &'s Session) -> Result<Object<'s>> {
    session.import("states")
}

/// One step of a nest: the interpreter, and the function of `states` to call there.
type Step = (usize, &'static str);

/// Calls each step inside the one before.
fn nest(pool: &Pool, steps: &'static [Step]) -> Result<()> {
    let Some(((index, function), rest)) = steps.split_first() else {
        return Ok(());
    };
    let session = pool.acquire_on(*index)?;
    let pool = pool.clone();
    let inner = session.function("inner", move |session, _| {
        nest(&pool, rest)?;
        session.none()
    })?;
    match function.strip_prefix("thread ") {
        Some(function) => {
            let function = module(&session)?.getattr(function)?;
            module(&session)?.call_method("on_a_thread", (function, inner))?;
        }
        None => {
            module(&session)?.call_method(function, (inner,))?;
        }
    }
    Ok(())
}

fn nests(pool: &Pool) {
    pool.register_module("states", STATE).unwrap();
    let nests: [&'static [Step]; 7] = [
        // An interpreter that is entered again from another one has its own state, not the other's.
        &[(0, "under_nothing"), (1, "under_no_grad"), (0, "under_nothing")],
        &[(0, "under_no_grad"), (1, "under_nothing"), (0, "under_inference"), (1, "under_nothing")],
        &[
            (0, "under_no_grad"),
            (1, "under_inference"),
            (2, "under_no_grad"),
            (2, "under_inference"),
            (1, "under_inference"),
        ],
        &[(0, "under_nothing"), (1, "under_no_grad"), (2, "under_nothing"), (0, "under_nothing")],
        // A thread that Python made has its interpreter's state in host functions too.
        &[(0, "thread under_nothing"), (1, "under_no_grad"), (0, "under_nothing")],
        &[(0, "thread under_inference"), (1, "under_nothing"), (1, "under_no_grad")],
        &[(2, "under_nothing"), (0, "thread under_no_grad"), (1, "under_nothing")],
    ];
    for steps in nests {
        nest(pool, steps).unwrap_or_else(|error| panic!("{steps:?}: {error}"));
        nest(pool, &[(0, "under_nothing")]).unwrap();
    }
    seen_from_inside(pool);
}

/// A state that is set in an interpreter holds when the interpreter is entered again: from another one, or
/// from a host function on a thread that Python made.
fn seen_from_inside(pool: &Pool) {
    let look = |pool: &Pool| -> Result<(bool, String, usize, bool)> {
        module(&pool.acquire_on(0)?)?.call_method("state", ())?.extract()
    };
    let set = (false, "meta".to_owned(), 1, false);
    for method in ["here", "on a thread", "through another"] {
        let session = pool.acquire_on(0).unwrap();
        let (pool, expected) = (pool.clone(), set.clone());
        let inner = session
            .function("inner", move |session, _| {
                let seen = if method == "through another" {
                    let other = pool.acquire_on(1)?;
                    let pool = pool.clone();
                    let look = other
                        .function("look", move |session, _| session.object_from(&look(&pool)?))?;
                    module(&other)?;
                    look.call(())?.extract()?
                } else {
                    look(&pool)?
                };
                assert_eq!(seen, expected, "{method}");
                session.none()
            })
            .unwrap();
        let states = module(&session).unwrap();
        let run = if method == "on a thread" {
            let function = states.getattr("under_no_grad").unwrap();
            states.call_method("on_a_thread", (function, inner))
        } else {
            states.call_method("under_no_grad", (inner,))
        };
        run.unwrap_or_else(|error| panic!("{method}: {error}"));
    }
}

#[test]
fn an_interpreter_entered_from_another_has_its_own_torch_state() {
    alone(PATIENCE, || {
        nests(&Pool::builder().interpreters(3).venv(venv()).build().unwrap());
    });
}

#[test]
fn handlers_of_signals_stay_when_torch_is_imported() {
    alone(PATIENCE, || {
        let handlers = || {
            (1..=64).map(|signal| {
                // SAFETY: zero is a value of every field, and the place is valid.
                unsafe {
                    let mut action: libc::sigaction = std::mem::zeroed();
                    libc::sigaction(signal, std::ptr::null(), &mut action);
                    action.sa_sigaction
                }
            })
        };
        let first: Vec<usize> = handlers().collect();
        let pool = Pool::builder().venv(venv()).interpreters(1).build().unwrap();
        // Reports of crashes take the place of default actions, and of Rust's.
        let before: Vec<usize> = handlers().collect();
        let replaced = (1..=64).zip(first.iter().zip(&before)).filter(|(_, (one, now))| one != now);
        let replaced: Vec<_> = replaced.map(|(signal, _)| signal).collect();
        let crashes =
            [libc::SIGILL, libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGSYS];
        assert_eq!(replaced, crashes, "a start has replaced other handlers");
        let imports = "import torch, torch.utils.data, torch.multiprocessing, asyncio, signal";
        pool.acquire().unwrap().run(imports, "imports").unwrap();
        assert!(handlers().eq(before.iter().copied()), "an import has changed them");
        drop(pool);
        assert!(handlers().eq(before), "the end of the pool has changed them");
    });
}
