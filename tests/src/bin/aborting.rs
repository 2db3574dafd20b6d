//! A program that is built with `panic = "abort"` (the workspace's profile `aborting`).
//!
//! Everything that raises works in it.

use anyhow::{Context, Result, ensure};
use hydrozoa::{Error, Pool};

/// C++ exceptions that become Python's, and a thread that still exists at the end. One of the exceptions
/// comes from the registration of an operator.
const EXCEPTIONS: &str = "
import torch, threading, time
def raised(function):
    try: function()
    except RuntimeError as error: return str(error)
    raise AssertionError('nothing was raised')
assert 'shapes' in raised(lambda: torch.ones(2, 3) @ torch.ones(2, 3))
library = torch.library.Library('aborting', 'DEF')
library.define('f(Tensor x) -> Tensor')
assert 'aborting::f' in raised(lambda: library.define('f(Tensor x) -> Tensor'))
x = torch.ones(2, requires_grad=True)
assert 'second time' in raised(lambda: [(y := (x * x).sum()), y.backward(), y.backward()])
# CPython up to 3.13 ends it by pthread_exit, which unwinds its stack by force.
threading.Thread(target=lambda: [time.sleep(0.01) for _ in range(1000)], daemon=True).start()
";

fn main() -> Result<()> {
    ensure!(cfg!(panic = "abort"), "cargo run --profile aborting");
    let venv = std::env::args().nth(1).context("aborting VENV")?;
    let pool = Pool::builder().interpreters(2).venv(venv).build()?;
    for interpreter in pool.interpreters() {
        let session = interpreter.session();
        session.run(EXCEPTIONS, "exceptions.py")?;
        let fail = session.function("fail", |_, _| Err(Error::Configuration("no".to_owned())))?;
        let error = fail.call(()).err().context("a host function's error")?;
        ensure!(error.to_string().contains("no"), "{error}");
    }
    drop(pool);
    Ok(())
}
