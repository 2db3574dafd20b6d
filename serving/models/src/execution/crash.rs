//! Crashes of a model's code that are contained: the words for clients, and the keepers that learn of them.

use crate::execution::Keeper;
use crate::request::{Code, Failure};
use hydrozoa::Interpreter;
use parking_lot::Mutex;
use std::fmt;
use std::sync::{Arc, Weak};

/// A crash of an instance's code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crash<'a> {
    pub(crate) model: &'a str,
    /// The instance's name.
    pub(crate) instance: &'a str,
    /// The report, as [`hydrozoa::Error::Crashed`] has it.
    pub(crate) report: &'a str,
}

impl fmt::Display for Crash<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, instance, report } = self;
        write!(
            formatter,
            "model '{model}' (instance '{instance}') has crashed: {}",
            summary(report)
        )
    }
}

impl Crash<'_> {
    /// For the requests of the instance.
    pub(crate) fn failure(&self) -> Failure {
        Failure::new(Code::Internal, self.to_string())
    }
}

/// A report on one line: its head, and the innermost function of the interpreter's code with its library. Folders are left out, since
/// clients see it.
pub(crate) fn summary(report: &str) -> String {
    let mut lines = report.lines();
    let head = lines.next().unwrap_or_default();
    let head = match head.strip_prefix("hydrozoa: ").unwrap_or(head) {
        "" => "the log has the report",
        head => head,
    };
    let native = lines.skip_while(|line| !line.starts_with("Native stack")).skip(1);
    let mut frames = native.take_while(|line| line.trim_start().starts_with('#'));
    let own = frames.find(|line| line.contains(", interpreter ")).and_then(function);
    match own {
        Some(function) => format!("{head}, {function}"),
        None => head.to_owned(),
    }
}

/// `string_at+0x48 in _ctypes.so` of `  #1 string_at+0x48 in .../_ctypes.so (0x8748), interpreter 1`.
fn function(line: &str) -> Option<String> {
    let (_, rest) = line.trim_start().split_once(' ')?;
    let (name, place) = rest.split_once(" in ")?;
    let place = place.split_once(", interpreter ").map_or(place, |(place, _)| place);
    let path = place.rsplit_once(" (").map_or(place, |(path, _)| path);
    let file = path.rsplit('/').next()?;
    Some(format!("{name} in {file}"))
}

/// The keepers that learn of crashes in a model's interpreters.
#[derive(Default)]
pub(crate) struct Crashes(Mutex<Vec<Watch>>);

struct Watch {
    /// Place in the pool, and which interpreter there.
    interpreter: (usize, usize),
    keeper: Weak<dyn Keeper>,
}

impl Crashes {
    /// The keeper learns of a crash of this interpreter.
    pub(crate) fn watch(&self, interpreter: &Interpreter, keeper: &Arc<dyn Keeper>) {
        let interpreter = (interpreter.index(), interpreter.generation());
        let mut watches = self.0.lock();
        watches.retain(|watch| watch.keeper.strong_count() > 0);
        watches.push(Watch { interpreter, keeper: Arc::downgrade(keeper) });
    }

    /// Tells the keepers of this interpreter that it has crashed.
    pub(crate) fn tell(&self, interpreter: &Interpreter, report: &str) {
        let place = (interpreter.index(), interpreter.generation());
        let keepers: Vec<_> = {
            let watches = self.0.lock();
            let its = watches.iter().filter(|watch| watch.interpreter == place);
            its.filter_map(|watch| watch.keeper.upgrade()).collect()
        };
        keepers.iter().for_each(|keeper| keeper.crashed(report));
    }
}

#[cfg(test)]
mod tests {
    use super::{Crash, summary};

    const REPORT: &str = "hydrozoa: SIGSEGV in interpreter 1 (index 1): no memory is mapped at 0x0
process 27406, thread 27407 \"worker\"
 rax 0000000000000000   rdx 00007fe7ec05ec50

Native stack (most recent call first):
  #0 0x00007fe7ed1b5ad8 in /lib/x86_64-linux-gnu/libc.so.6 (0x167ad8)
  #1 string_at+0x48 in /usr/lib/lib-dynload/_ctypes.cpython-310-x86_64-linux-gnu.so (0x8748), interpreter 1

Python stacks of interpreter 1:
";

    #[test]
    fn a_report_is_one_line_for_clients_without_folders() {
        let head = "SIGSEGV in interpreter 1 (index 1): no memory is mapped at 0x0";
        let function = "string_at+0x48 in _ctypes.cpython-310-x86_64-linux-gnu.so";
        assert_eq!(summary(REPORT), format!("{head}, {function}"));
        let crash = Crash { model: "m", instance: "m_0_1", report: REPORT };
        let words = format!("model 'm' (instance 'm_0_1') has crashed: {head}, {function}");
        assert_eq!(crash.failure().message, words);
        let replaced = REPORT.replace("interpreter 1", "interpreter 1 (replacement 2)");
        assert!(summary(&replaced).ends_with(function), "{}", summary(&replaced));
        assert_eq!(summary("hydrozoa: SIGABRT in interpreter 0"), "SIGABRT in interpreter 0");
        assert_eq!(summary(""), "the log has the report");
    }
}
