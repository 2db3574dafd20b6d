//! Interpreters do not affect each other through torch.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use hydrozoa::{Pool, Session};
use hydrozoa_tests::place;

const COPIES: usize = 3;

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    Ok(text)
}

/// Runs a script in plain python and in all copies at once. Its arguments there are a folder, and the number of copies.
fn everywhere(script: &str, folder: &str) -> Result<()> {
    let script = place::script(script);
    run(Command::new(place::venv()?.join("bin/python")).arg(&script))?;
    let folder = place::scratch(folder)?;
    let mut command = Command::new(place::command()?);
    command.arg("python").arg("--venv").arg(place::venv()?);
    command.args(["--copies", &COPIES.to_string(), "--in", "all", "--"]);
    let printed = run(command.arg(&script).arg(folder.path()).arg(COPIES.to_string()))?;
    let done = printed.lines().filter(|line| line.ends_with(": 0 failed")).count();
    ensure!(done == COPIES, "{done} copies reported:\n{printed}");
    Ok(())
}

/// One copy forks children, which register operators, while two others register operators all the time.
pub fn forks() -> Result<()> {
    everywhere("torch_forks.py", "forks")
}

/// torch's state in three copies at once, as often as `HYDROZOA_TEST_REPETITIONS` says (20).
pub fn state() -> Result<()> {
    for repetition in 1..=place::repetitions()? {
        everywhere("torch_state.py", "state")
            .with_context(|| format!("repetition {repetition}"))?;
    }
    Ok(())
}

/// The state that the first interpreter leaves on the thread.
const LEAVE_MODES: &str = "
import torch
assert torch.is_grad_enabled()
torch.set_default_device('meta')
torch.set_grad_enabled(False)
";

/// A new thread's state. Then modes that are written in Python, entered and left in separate visits.
const ENTER_MODES: &str = "
import torch
from torch.utils._python_dispatch import TorchDispatchMode
assert torch.is_grad_enabled() and torch.ones(2).device.type == 'cpu'

class Count(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        Count.calls += 1
        return function(*args, **(kwargs or {}))

contexts = [Count(), torch.inference_mode(), torch.autocast('cpu', dtype=torch.bfloat16)]
for context in contexts:
    context.__enter__()
import sys
sys.contexts = contexts
";

const STILL_THERE: &str = "
import torch
assert torch.ones(2).device.type == 'meta' and not torch.is_grad_enabled()
assert not torch.is_inference_mode_enabled() and not torch.is_autocast_enabled('cpu')
torch.set_default_device(None)
torch.set_grad_enabled(True)
";

const LEAVE: &str = "
import sys, torch
assert torch.is_inference_mode_enabled() and torch.is_autocast_enabled('cpu')
calls = sys.contexts[0].calls
torch.zeros(1)
assert sys.contexts[0].calls == calls + 1
for context in reversed(sys.contexts):
    context.__exit__(None, None, None)
x = torch.ones(2, requires_grad=True)
(x * x).sum().backward()
assert x.grad.tolist() == [2, 2]
";

pub fn thread_state() -> Result<()> {
    let pool = Pool::builder().venv(place::venv()?).interpreters(2).build()?;
    let sessions: Vec<Session> =
        pool.interpreters().iter().map(hydrozoa::Interpreter::session).collect();
    for _ in 0..20 {
        for (session, code) in [(0, LEAVE_MODES), (1, ENTER_MODES), (0, STILL_THERE), (1, LEAVE)] {
            sessions[session].run(code, "modes.py")?;
        }
    }
    Ok(())
}
