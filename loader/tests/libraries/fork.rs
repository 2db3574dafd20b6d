//! Handlers of forks.

use std::thread;
use std::time::{Duration, Instant};

use crate::replicas::{call, domains, open_in};
use hydrozoa_testkit::libraries::Workshop;

/// How long a child may take that has next to nothing to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// The status of a child; one that hangs is ended.
fn ended(child: libc::pid_t) -> Result<libc::c_int, String> {
    let begin = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: the status is a valid place, the child is ours and has not been waited for.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            return Ok(status);
        }
        if begin.elapsed() > PATIENCE {
            // SAFETY: as above.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &mut status, 0);
            }
            return Err(format!("the child hangs: no end after {PATIENCE:?}"));
        }
        thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn a_fork_calls_the_handlers_of_the_domain_that_forks() {
    let shop = Workshop::new("fork-handlers");
    let source = r#"
        #include <pthread.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static int before_it, in_parent, in_child;
        static void before(void) { before_it++; }
        static void parent(void) { in_parent++; }
        static void child(void) { in_child++; }
        int prepare(void) { return pthread_atfork(before, parent, child); }
        int calls(void) { return before_it * 100 + in_parent * 10 + in_child; }
        int child_of_a_fork(void)
        {
            int status = -1;
            pid_t pid = fork();
            if (pid == 0)
                _exit(calls());
            return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        }
    "#;
    let library = shop.build("libhandlers.so", source, &[]);
    let copies = open_in(&domains(2), &library);
    for copy in &copies {
        assert_eq!(call(copy, "prepare"), 0);
    }
    assert_eq!(call(&copies[0], "child_of_a_fork"), 101);
    assert_eq!(call(&copies[0], "calls"), 110);
    assert_eq!(call(&copies[1], "calls"), 0, "the other domain's code did not fork");
    assert_eq!(call(&copies[1], "child_of_a_fork"), 101);
    // SAFETY: the child leaves at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let calls = call(&copies[0], "calls");
        // SAFETY: always.
        unsafe { libc::_exit(calls) };
    }
    let status = ended(child).unwrap();
    assert_eq!(libc::WEXITSTATUS(status), 110, "the program's own fork is no domain's");
}
