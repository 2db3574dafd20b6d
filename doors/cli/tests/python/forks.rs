//! Children that a program in one of several copies forks.

use crate::beside::{Seen, both, copy, pythons};

/// How the child ends, and the status that it leaves.
const ENDS: [(&str, i32); 7] = [
    ("sys.exit(7)", 7),
    ("sys.exit()", 0),
    ("sys.exit('a text')", 1),
    ("raise ValueError", 1),
    ("os._exit(9)", 9),
    ("pass", 0),
    ("os.kill(os.getpid(), 9)", -9),
];

/// A program whose child ends in such a way. It prints the child's status and what the child's exit handler has
/// written.
fn program(end: &str) -> String {
    format!(
        "import atexit, os, sys\n\
         reading, writing = os.pipe()\n\
         child = os.fork()\n\
         if child == 0:\n    \
             atexit.register(lambda: os.write(writing, b'cleaned up'))\n    \
             {end}\n\
         else:\n    \
             os.close(writing)\n    \
             status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n    \
             print(status, os.read(reading, 100).decode())\n"
    )
}

#[test]
fn a_child_of_one_of_several_copies_ends_as_in_plain_python() {
    for python in pythons().values() {
        for (end, status) in ENDS {
            let program = program(end);
            let [plain, alone] = both(python, &program);
            assert_eq!(plain.output.split(' ').next(), Some(status.to_string().as_str()), "{end}");
            assert_eq!(alone.output, plain.output, "{end}");
            let mut command = copy(python, &["--copies", "3", "--in", "all"]);
            let seen: Seen = command.args(["-c", &program]).output().unwrap().into();
            assert_eq!(seen.output, plain.output.repeat(3), "{end}: {}", seen.errors);
            assert_eq!(seen.code, Some(0));
        }
    }
}
