//! The memory and the descriptors of an application.

use crate::application::application;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

/// Loads all extension modules of the standard library, and prints the number of libraries and descriptors before and after. Then it waits for a
/// line, and prints KiB of text from the file: anonymous, all, and shared with others.
const LOADS: &str = r#"
import importlib, os, pkgutil, re
count = lambda: len(os.listdir('/proc/self/fd'))
def mappings():
    for part in re.split(r'^(?=[0-9a-f]+-[0-9a-f]+ )', open('/proc/self/smaps').read(), flags=re.M)[1:]:
        first = part.splitlines()[0].split(None, 5)
        if len(first) > 5 and first[5] == sys.executable and 'x' in first[1]:
            yield {name: int(number) for name, number in re.findall(r'^(\w+): +(\d+) kB', part, flags=re.M)}
before, texts = count(), len(list(mappings()))
for module in pkgutil.iter_modules([path for path in sys.path if path.endswith('lib-dynload')]):
    try:
        importlib.import_module(module.name)
    except ImportError:
        pass
print(len(list(mappings())) - texts, before, count(), flush=True)
sys.stdin.readline()
anonymous, all, clean, dirty = (sum(one[name] for one in mappings()) for name in ('Anonymous', 'Rss', 'Shared_Clean', 'Shared_Dirty'))
# Of a file that was just written, the pages are dirty.
print(anonymous, all, clean + dirty, flush=True)
sys.stdin.readline()
"#;

/// A process of the application, with the lines that it prints.
struct Running(Child, BufReader<std::process::ChildStdout>);

impl Running {
    fn start() -> Self {
        let mut command: Command = application().command(LOADS);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self(child, lines)
    }

    fn numbers(&mut self) -> Vec<u64> {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.split_whitespace().map(|number| number.parse().unwrap()).collect()
    }

    fn go_on(&mut self) {
        writeln!(self.0.stdin.as_ref().unwrap()).unwrap();
    }
}

#[test]
fn text_is_mapped_from_the_file_shared_by_processes_and_takes_no_descriptors() {
    let mut both = [Running::start(), Running::start()];
    for one in &mut both {
        let [libraries, before, after] = one.numbers()[..] else { panic!("three numbers") };
        assert!(libraries > 20, "{libraries} libraries");
        // Some modules open files of their own.
        assert!(
            after <= before + 2,
            "{before} descriptors, and {after} with {libraries} libraries"
        );
    }
    for one in &mut both {
        one.go_on();
        let [anonymous, all, shared] = one.numbers()[..] else { panic!("three numbers") };
        assert_eq!(anonymous, 0);
        assert!(shared * 100 >= all * 95, "{shared} of {all} KiB");
    }
    for mut one in both {
        one.go_on();
        assert!(one.0.wait().unwrap().success());
    }
}
