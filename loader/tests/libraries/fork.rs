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
    assert_eq!(libc::WEXITSTATUS(status), 110, "the program's own fork is no domain's");
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

/// A library that domains share. The initialization of a variable in it says that it begins, and takes a while, or
/// until a fork is over.
const SLOW_VARIABLES: &str = r#"
    #include <atomic>
    #include <unistd.h>
    static std::atomic<int> state;
    static int slowly(int microseconds)
    {
        state = 1;
        for (int waited = 0; waited < microseconds && state == 1; waited += 1000)
            usleep(1000);
        return 5;
    }
    static int thrown(int microseconds) { throw slowly(microseconds); }
    extern "C" int has_begun(void) { return state; }
    extern "C" int forked(void) { state = 2; return 0; }
    extern "C" int short_one(void)
    {
        static int value = slowly(300 * 1000);
        return value;
    }
    extern "C" int throwing_one(void)
    {
        try {
            static int value = thrown(300 * 1000);
            return value;
        } catch (int thrown) {
            return thrown;
        }
    }
    extern "C" int long_one(void)
    {
        static int value = slowly(60 * 1000 * 1000);
        return value;
    }
"#;

/// What the library of a domain calls.
const USER: &str = "
    #include <unistd.h>
    int has_begun(void), forked(void), short_one(void), throwing_one(void), long_one(void);
    int begun(void) { return has_begun(); }
    int over(void) { return forked(); }
    int call_short_one(void) { return short_one(); }
    int call_throwing_one(void) { return throwing_one(); }
    int call_long_one(void) { return long_one(); }
    int fork_a_child(void) { return fork(); }
";

/// The status of a child that one domain forks while another initializes the variable of `name`, and how long the
/// fork took. The child asks for the variable if it `asks`.
fn child_beside(name: &str, asks: bool) -> (Result<libc::c_int, String>, Duration) {
    let shop = Workshop::new(&format!("fork-{name}"));
    shop.build("libslow++.so", SLOW_VARIABLES, &[]);
    let user = shop.build("libuser.so", USER, &["-L{dir}", "-l:libslow++.so", "-Wl,-rpath,{dir}"]);
    let policy = Policy::default().with("*/libuser.so", Class::Replicate, "test").with(
        "*/libslow++.so",
        Class::Commons,
        "test",
    );
    let loader = Loader::builder().policy(policy).build().unwrap();
    let domains = ["initializes", "forks"].map(|name| loader.domain(name).build().unwrap());
    let [one, other] =
        domains.each_ref().map(|domain| open(domain, &user, OpenFlags::NOW).unwrap());
    let name = format!("call_{name}");
    thread::scope(|scope| {
        let thread = scope.spawn(|| call(&one, &name));
        while call(&other, "begun") == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let begin = Instant::now();
        let child = call(&other, "fork_a_child");
        if child == 0 {
            let value = if asks { call(&other, &name) } else { 1 };
            // SAFETY: always.
            unsafe { libc::_exit(value) };
        }
        let took = begin.elapsed();
        call(&other, "over");
        assert_eq!(thread.join().unwrap(), 5);
        (ended(child).map(|status| libc::WEXITSTATUS(status)), took)
    })
}

#[test]
fn a_child_finds_a_variable_of_a_shared_library_whole_that_another_domain_was_initializing() {
    assert_eq!(child_beside("short_one", true).0, Ok(5));
    assert_eq!(child_beside("throwing_one", true).0, Ok(5));
}

/// The initialization may wait for what the thread that forks is to do.
#[test]
fn a_fork_waits_a_second_for_an_initialization_and_no_longer() {
    let (status, took) = child_beside("long_one", false);
    assert_eq!(status, Ok(1));
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(30), "{took:?}");
}
