//! Processes that code of an interpreter has started, after its end.

use crate::cycling::Taken;
use crate::pythons::builders;
use hydrozoa_testkit::alone::{PATIENCE, alone};
use std::io;

/// Children of three kinds: multiprocessing's tracker and its server, and programs that have ended, of which one was
/// forgotten.
const CODE: &str = "
import multiprocessing, os, subprocess
from multiprocessing import shared_memory
memory = shared_memory.SharedMemory(create=True, size=16)
memory.close()
memory.unlink()
from multiprocessing import forkserver
forkserver.ensure_running()
kept = subprocess.Popen(['sh', '-c', ''])
forgotten = subprocess.Popen(['sh', '-c', 'read line'], stdin=subprocess.PIPE)
pid, write = forgotten.pid, os.dup(forgotten.stdin.fileno())
del forgotten
os.write(write, b'end\\n')
os.close(write)
for child in [kept.pid, pid]: os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
";

#[test]
fn no_child_of_an_ended_interpreter_is_left_that_has_ended_or_served_it() {
    alone(PATIENCE, || {
        for builder in builders(1) {
            let round = || {
                let pool = builder.clone().build().unwrap();
                pool.acquire().unwrap().run(CODE, "children.py").unwrap();
            };
            round();
            let before = Taken::now();
            (0..3).for_each(|_| round());
            Taken::now().assert_bounded(before, 3, 100 << 10);
            // SAFETY: the place is valid. WNOWAIT leaves what it finds.
            let child = unsafe {
                let mut found: libc::siginfo_t = std::mem::zeroed();
                let which = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
                libc::waitid(libc::P_ALL, 0, &mut found, which)
            };
            assert_eq!(child, -1, "there is a child");
            assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::ECHILD));
        }
    });
}
