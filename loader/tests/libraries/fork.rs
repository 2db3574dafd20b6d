//! Handlers of forks, and loads that a fork interrupts.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::replicas::{call, domains, open_in};
use hydrozoa_loader::{Class, Interposition, Loader, OpenFlags, Policy};
use hydrozoa_testkit::libraries::{Workshop, open};

/// How long a child may take. It has almost nothing to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// The status of a child. A child that hangs is killed.
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
    assert_eq!(libc::WEXITSTATUS(status), 110, "the program's own fork belongs to no domain");
}

/// Exit handlers and destructors of another domain may take a lock that a thread of that domain held during the fork.
#[test]
fn a_child_that_ends_calls_the_exit_handlers_of_the_domain_that_forked_and_no_others() {
    let shop = Workshop::new("fork-exit");
    let source = r#"
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static int says = -1, bit;
        static void say(int which) { char byte = which << bit; if (says >= 0) write(says, &byte, 1); }
        static void at_exit(void) { say(1); }
        __attribute__((destructor)) static void destroy(void) { say(2); }
        int number(void) { return bit = 2; }
        int prepare(void) { return atexit(at_exit); }
        /* What the handlers of all domains write into a pipe, added. */
        int end_of_a_child(void)
        {
            int ends[2], sum = 0;
            char byte;
            if (pipe(ends))
                return -1;
            pid_t pid = fork();
            if (pid == 0) {
                close(ends[0]);
                dup2(ends[1], 600);
                exit(0);
            }
            close(ends[1]);
            while (read(ends[0], &byte, 1) == 1)
                sum += byte;
            waitpid(pid, 0, 0);
            close(ends[0]);
            return sum;
        }
        int listen(void) { says = 600; return 0; }
    "#;
    let library = shop.build("libends.so", source, &[]);
    let copies = open_in(&domains(2), &library);
    for copy in &copies {
        assert_eq!(call(copy, "prepare"), 0);
        assert_eq!(call(copy, "listen"), 0);
    }
    assert_eq!(call(&copies[1], "number"), 2);
    assert_eq!(call(&copies[0], "end_of_a_child"), 1 + 2);
    assert_eq!(call(&copies[1], "end_of_a_child"), 4 + 8);
}

/// Whether a constructor runs, and may end.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
static MAY_END: AtomicBool = AtomicBool::new(false);

extern "C" fn wait_for_the_fork() {
    HAS_BEGUN.store(true, Ordering::Release);
    while !MAY_END.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_child_runs_the_constructors_that_the_fork_has_kept_from_running() {
    let shop = Workshop::new("fork-cuts-off");
    let slow = "void wait_for_the_fork(void); int begun;
        __attribute__((constructor)) static void begin(void) { begun++; wait_for_the_fork(); }";
    shop.build("libslow.so", slow, &[]);
    let user = "extern int begun; static int value;
        __attribute__((constructor)) static void begin(void) { value += 7; }
        int get(void) { return value * 10 + begun; }";
    let user = shop.build("libuser.so", user, &["-L{dir}", "-l:libslow.so", "-Wl,-rpath,{dir}"]);
    let policy = Policy::default().with("*/libslow.so", Class::Replicate, "test");
    let loader = Loader::builder().policy(policy).build().unwrap();
    // SAFETY: the library declares the function so.
    let wait = unsafe { Interposition::function(wait_for_the_fork as *const c_void) };
    let domain = loader.domain("cut off").interpose("wait_for_the_fork", wait).build().unwrap();
    let status = thread::scope(|scope| {
        let thread = scope.spawn(|| open(&domain, &user, OpenFlags::NOW).unwrap());
        while !HAS_BEGUN.load(Ordering::Acquire) && !thread.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: the child does what the loader and the C library allow after a fork, and leaves without
        // running code that the parent has registered.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let value = open(&domain, &user, OpenFlags::NOW).map_or(1, |user| call(&user, "get"));
            // SAFETY: always.
            unsafe { libc::_exit(value) };
        }
        let status = ended(child);
        MAY_END.store(true, Ordering::Release);
        assert_eq!(call(&thread.join().unwrap(), "get"), 71);
        status
    });
    assert_eq!(libc::WEXITSTATUS(status.unwrap()), 71, "constructed once, both of them");
}
