//! Children belong to the domain whose code has made them.

use std::ffi::c_int;
use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use hydrozoa_loader::{Library, Loader, OpenFlags};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::{Workshop, function, open};

use crate::replicas::{call, domains, open_in};

/// Ways to make a child and to wait for it. `run` returns 0, or the line of the failed check.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static int leave(void *status) { _exit((int)(long)status); }
static pid_t forked(int status) { pid_t pid = fork(); if (!pid) _exit(status); return pid; }
static pid_t vforked(int status) { pid_t pid = vfork(); if (!pid) _exit(status); return pid; }
static pid_t forked_bare(int status) { pid_t pid = _Fork(); if (!pid) _exit(status); return pid; }
static pid_t forked_by_number(int status)
{
    pid_t pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (!pid) _exit(status);
    return pid;
}
static pid_t cloned(int status)
{
    static __thread char stack[65536] __attribute__((aligned(16)));
    return clone(leave, stack + sizeof stack, SIGCHLD, (void *)(long)status);
}
static pid_t with_terminal(int status)
{
    int terminal;
    pid_t pid = forkpty(&terminal, 0, 0, 0);
    if (!pid) _exit(status);
    /* It stays open: its end would be a signal for the child, which makes a group of its own. */
    while (pid > 0 && getpgid(pid) != pid)
        sched_yield();
    return pid;
}
static pid_t spawned(int status)
{
    char text[16], *arguments[] = { "sh", "-c", text, 0 };
    sprintf(text, "exit %d", status);
    pid_t pid;
    return posix_spawn(&pid, "/bin/sh", 0, 0, arguments, environ) ? -1 : pid;
}
static pid_t searched(int status)
{
    char text[16], *arguments[] = { "sh", "-c", text, 0 };
    sprintf(text, "exit %d", status);
    pid_t pid;
    return posix_spawnp(&pid, "sh", 0, 0, arguments, environ) ? -1 : pid;
}
static pid_t (*const makers[])(int) = {
    forked, vforked, forked_bare, forked_by_number, cloned, with_terminal, spawned, searched,
};

static int by_wait(pid_t pid, int *status) { return wait(status) == pid; }
static int by_any(pid_t pid, int *status) { return waitpid(-1, status, 0) == pid; }
static int by_group(pid_t pid, int *status) { return waitpid(-getpgid(pid), status, 0) == pid; }
static int by_number(pid_t pid, int *status) { return waitpid(pid, status, 0) == pid; }
static int by_wait3(pid_t pid, int *status)
{
    struct rusage usage;
    memset(&usage, 0xff, sizeof usage);
    return wait3(status, 0, &usage) == pid && usage.ru_maxrss >= 0;
}
static int by_wait4(pid_t pid, int *status)
{
    struct rusage usage;
    memset(&usage, 0xff, sizeof usage);
    return wait4(-1, status, 0, &usage) == pid && usage.ru_maxrss >= 0;
}
static int reported(siginfo_t *report, pid_t pid, int *status)
{
    *status = W_EXITCODE(report->si_status, 0);
    return report->si_pid == pid && report->si_code == CLD_EXITED;
}
static int by_kind(pid_t pid, int *status)
{
    siginfo_t report;
    return !waitid(P_ALL, 0, &report, WEXITED) && reported(&report, pid, status);
}
static int by_kind_of_group(pid_t pid, int *status)
{
    siginfo_t report;
    return !waitid(P_PGID, getpgid(pid), &report, WEXITED) && reported(&report, pid, status);
}
static int by_look(pid_t pid, int *status)
{
    siginfo_t report;
    return !waitid(P_ALL, 0, &report, WEXITED | WNOWAIT) && reported(&report, pid, status) && by_any(pid, status);
}
static int by_descriptor(pid_t pid, int *status)
{
    siginfo_t report;
    int file = syscall(SYS_pidfd_open, pid, 0), waited = waitid(P_PIDFD, file, &report, WEXITED);
    close(file);
    return !waited && reported(&report, pid, status);
}
static int by_looks(pid_t pid, int *status)
{
    pid_t found;
    while (!(found = waitpid(-1, status, WNOHANG)))
        usleep(100);
    return found == pid;
}
static int by_system_call(pid_t pid, int *status) { return syscall(SYS_wait4, -1, status, 0, 0) == pid; }
static int (*const waiters[])(pid_t, int *) = {
    by_wait, by_any, by_group, by_number, by_wait3, by_wait4, by_kind, by_kind_of_group, by_look, by_descriptor,
    by_looks, by_system_call,
};
int ways(void) { return sizeof makers / sizeof *makers * sizeof waiters / sizeof *waiters; }
int run(int way, int number)
{
    int count = sizeof makers / sizeof *makers, status = -1, expected = 10 + 20 * number + way % 20;
    pid_t pid = makers[way % count](expected);
    CHECK(pid > 0);
    CHECK(waiters[way / count](pid, &status));
    CHECK(status == W_EXITCODE(expected, 0));
    CHECK(waitpid(-1, &status, 0) == -1 && errno == ECHILD);
    CHECK(waitpid(pid, &status, 0) == -1 && errno == ECHILD);
    return 0;
}
int piped(int unused, int number)
{
    char command[32];
    sprintf(command, "exit %d", 20 + number);
    FILE *stream = popen(command, "r");
    CHECK(stream && pclose(stream) == W_EXITCODE(20 + number, 0));
    stream = popen(command, "r");
    int status = 0;
    CHECK(stream && wait(&status) > 0 && status == W_EXITCODE(20 + number, 0));
    CHECK(pclose(stream) == -1 && errno == ECHILD);
    CHECK(system(command) == W_EXITCODE(20 + number, 0));
    return 0;
}

/* What another domain, or the host, has made is no child. */
int foreign(pid_t pid)
{
    int status, file = syscall(SYS_pidfd_open, pid, 0);
    siginfo_t report;
    CHECK(file >= 0);
    pid_t all[] = { pid, -1, 0, -getpgid(pid) };
    for (int i = 0; i < 4; i++)
        for (int options = 0; options <= WNOHANG; options += WNOHANG) {
            errno = 0;
            CHECK(waitpid(all[i], &status, options) == -1 && errno == ECHILD);
        }
    struct { int kind; id_t id; } kinds[] = { {P_PID, pid}, {P_ALL, 0}, {P_PGID, getpgid(pid)}, {P_PIDFD, file} };
    for (int i = 0; i < 4; i++)
        for (int options = WEXITED; options <= (WEXITED | WNOHANG); options += WNOHANG) {
            errno = 0;
            CHECK(waitid(kinds[i].kind, kinds[i].id, &report, options) == -1 && errno == ECHILD);
        }
    CHECK(syscall(SYS_wait4, -1, &status, 0, 0) == -1 && errno == ECHILD);
    CHECK(wait4(-1, &status, 0x40000, 0) == -1 && errno == EINVAL);
    CHECK(waitid(P_ALL, 0, &report, WNOHANG) == -1 && errno == EINVAL);
    close(file);
    return 0;
}
int make(int status) { return forked(status); }
int take(pid_t pid)
{
    int status = -1;
    return waitpid(-1, &status, 0) == pid ? WEXITSTATUS(status) : -1;
}

/* A child that lives until the pipe is closed. */
static pid_t waiting(int *end)
{
    int ends[2];
    char byte;
    if (pipe(ends))
        return -1;
    pid_t pid = fork();
    if (!pid) {
        close(ends[1]);
        read(ends[0], &byte, 1);
        _exit(0);
    }
    close(ends[0]);
    *end = ends[1];
    return pid;
}
static int handled;
static pthread_t sleeper;
static void handle(int signal) { handled++; }
/* Sends signals while the other thread sleeps, and ends its child at last. */
static void *disturb(void *end)
{
    for (int sent = 0; sent < 3; sent++) {
        usleep(20000);
        pthread_kill(sleeper, SIGUSR1);
    }
    usleep(20000);
    close((int)(long)end);
    return 0;
}
int interrupted(int restarts)
{
    struct sigaction action = { .sa_handler = handle, .sa_flags = restarts ? SA_RESTART : 0 };
    CHECK(!sigaction(SIGUSR1, &action, 0));
    int end, status;
    pid_t pid = waiting(&end);
    pthread_t other;
    sleeper = pthread_self();
    handled = 0;
    CHECK(!pthread_create(&other, 0, disturb, (void *)(long)end));
    if (!restarts)
        for (int seen = 0; seen < 3; seen++) {
            CHECK(waitpid(-1, &status, 0) == -1 && errno == EINTR);
            CHECK(handled == seen + 1);
        }
    CHECK(waitpid(-1, &status, 0) == pid && handled == 3);
    pthread_join(other, 0);
    return 0;
}

/* A child that another thread makes while one sleeps. */
static void *make_another(void *place)
{
    usleep(50000);
    *(pid_t *)place = forked(9);
    return 0;
}
int born_meanwhile(void)
{
    int end, status;
    pid_t first = waiting(&end), second = 0;
    pthread_t other;
    CHECK(!pthread_create(&other, 0, make_another, &second));
    pid_t found = waitpid(-1, &status, 0);
    pthread_join(other, 0);
    CHECK(found == second && WEXITSTATUS(status) == 9);
    close(end);
    CHECK(waitpid(-1, &status, 0) == first);
    return 0;
}

/* Several threads of one domain wait at once. */
static void *wait_for_any(void *unused)
{
    int status;
    pid_t pid = wait(&status);
    return (void *)(long)(pid > 0 ? WEXITSTATUS(status) : -errno);
}
int together(void)
{
    pthread_t threads[5];
    int ends[4], sum = 0, without = 0;
    for (int i = 0; i < 4; i++)
        CHECK(waiting(&ends[i]) > 0);
    for (int i = 0; i < 5; i++)
        CHECK(!pthread_create(&threads[i], 0, wait_for_any, 0));
    usleep(20000);
    for (int i = 0; i < 4; i++)
        close(ends[i]);
    for (int i = 0; i < 5; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += result == 0;
        without += (long)result == -ECHILD;
    }
    return sum == 4 && without == 1 ? 0 : __LINE__;
}

int stopped(void)
{
    int end, status;
    siginfo_t report;
    pid_t pid = waiting(&end);
    CHECK(waitpid(-1, &status, WNOHANG | WUNTRACED) == 0);
    kill(pid, SIGSTOP);
    CHECK(waitpid(-1, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(waitpid(-1, &status, WNOHANG | WUNTRACED) == 0);
    kill(pid, SIGCONT);
    CHECK(!waitid(P_ALL, 0, &report, WCONTINUED) && report.si_pid == pid && report.si_code == CLD_CONTINUED);
    report.si_pid = 1;
    CHECK(!waitid(P_ALL, 0, &report, WEXITED | WNOHANG) && report.si_pid == 0);
    kill(pid, SIGKILL);
    CHECK(waitpid(0, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(end);
    return 0;
}

/* A handler that waits for the children, as it comes in the middle of their making. */
static volatile int reaped;
static void reap(int signal)
{
    int errno_before = errno;
    while (waitpid(-1, 0, WNOHANG) > 0)
        __atomic_add_fetch(&reaped, 1, __ATOMIC_SEQ_CST);
    errno = errno_before;
}
int by_handler(void)
{
    struct sigaction action = { .sa_handler = reap, .sa_flags = SA_RESTART };
    CHECK(!sigaction(SIGCHLD, &action, 0));
    for (int i = 0; i < 100; i++)
        CHECK(forked(0) > 0);
    /* Any thread of the process may be the one that takes the signal. */
    while (reaped < 100)
        usleep(1000);
    CHECK(waitpid(-1, 0, 0) == -1 && errno == ECHILD);
    signal(SIGCHLD, SIG_DFL);
    return 0;
}

/* Nobody waits for children of a process that ignores their ends. */
int ignored(void)
{
    int end;
    signal(SIGCHLD, SIG_IGN);
    pid_t pid = waiting(&end);
    CHECK(pid > 0 && waitpid(-1, 0, WNOHANG) == 0);
    pthread_t other;
    sleeper = pthread_self();
    signal(SIGUSR1, SIG_IGN);
    CHECK(!pthread_create(&other, 0, disturb, (void *)(long)end));
    CHECK(waitpid(-1, 0, 0) == -1 && errno == ECHILD);
    pthread_join(other, 0);
    signal(SIGCHLD, SIG_DFL);
    return 0;
}

/* A child of a fork has no children. */
int none_in_a_child(void)
{
    int end, status;
    pid_t first = waiting(&end), pid = fork();
    if (!pid)
        _exit(waitpid(-1, &status, 0) == -1 && errno == ECHILD && waitpid(first, &status, 0) == -1
            && errno == ECHILD && take(make(5)) == 5 ? 7 : 1);
    CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
    close(end);
    CHECK(waitpid(-1, &status, 0) == first);
    return 0;
}
int leave_two(void)
{
    int end;
    CHECK(forked(3) > 0 && waiting(&end) > 0);
    return end;
}
"#;

/// A function of one number.
fn one_number(library: &Library, name: &str) -> extern "C" fn(c_int) -> c_int {
    // SAFETY: the libraries declare the functions that tests call so.
    unsafe { function(library, name) }
}

/// In a process of its own: the C library of a test's process has one list of children.
fn three(name: &str, use_them: impl FnOnce(&[Library])) {
    let shop = Workshop::new(name);
    let path = shop.build("libchildren.so", SOURCE, &["-pthread", "-lutil"]);
    use_them(&open_in(&domains(3), &path));
}

#[test]
fn each_of_three_domains_waits_for_its_own_children_in_every_way() {
    alone(PATIENCE, || {
        three("children-ways", |libraries| {
            let ways = call(&libraries[0], "ways");
            // The host has a child too, which nobody else waits for.
            let mut host = Command::new("sh").args(["-c", "exit 77"]).spawn().unwrap();
            let together = Barrier::new(libraries.len());
            thread::scope(|scope| {
                for (library, number) in libraries.iter().zip(0..) {
                    let together = &together;
                    scope.spawn(move || {
                        // SAFETY: the library declares them so.
                        let [run, piped]: [extern "C" fn(c_int, c_int) -> c_int; 2] =
                            unsafe { [function(library, "run"), function(library, "piped")] };
                        for way in 0..ways {
                            together.wait();
                            assert_eq!(run(way, number), 0, "the line, for way {way}");
                        }
                        for _ in 0..5 {
                            assert_eq!(piped(0, number), 0, "the line");
                        }
                    });
                }
            });
            assert_eq!(host.wait().unwrap().code(), Some(77));
        });
    });
}

#[test]
fn another_domain_s_child_and_the_host_s_are_no_children() {
    alone(PATIENCE, || {
        three("children-foreign", |libraries| {
            let child = one_number(&libraries[0], "make")(42);
            let foreign = one_number(&libraries[1], "foreign");
            let mut host = Command::new("true").spawn().unwrap();
            assert_eq!(foreign(child), 0, "the line");
            assert_eq!(foreign(host.id() as c_int), 0, "the line");
            assert_eq!(one_number(&libraries[0], "take")(child), 42);
            assert!(host.wait().unwrap().success());
        });
    });
}

#[test]
fn a_wait_for_any_child_is_one_of_the_kernel_s() {
    // `ignored` comes last but one: it takes the other domain's children, too.
    let cases: [(&str, Option<c_int>); 8] = [
        ("interrupted", Some(0)),
        ("interrupted", Some(1)),
        ("born_meanwhile", None),
        ("together", None),
        ("stopped", None),
        ("by_handler", None),
        ("ignored", None),
        ("none_in_a_child", None),
    ];
    alone(PATIENCE, || {
        three("children-waits", |libraries| {
            let make = one_number(&libraries[1], "make");
            // Children of another domain that nobody waits for, and that the kernel would report on.
            let _others = [make(1), make(2)];
            for (name, argument) in cases {
                let line = match argument {
                    None => call(&libraries[0], name),
                    Some(argument) => one_number(&libraries[0], name)(argument),
                };
                assert_eq!(line, 0, "the line of {name}");
            }
        });
    });
}

#[test]
fn children_of_an_ended_domain_are_waited_for() {
    alone(PATIENCE, || {
        let shop = Workshop::new("children-left");
        let path = shop.build("libchildren.so", SOURCE, &["-pthread", "-lutil"]);
        let loader = Loader::builder().build().unwrap();
        let (ends, stays) = (loader.domain("ends").build(), loader.domain("stays").build());
        let (ends, stays) = (ends.unwrap(), stays.unwrap());
        let pipe = call(&open(&ends, &path, OpenFlags::NOW).unwrap(), "leave_two");
        // SAFETY: none of its code runs, and nobody uses it any more.
        unsafe { ends.retire(|| ()) };
        let other = open(&stays, &path, OpenFlags::NOW).unwrap();
        // SAFETY: a descriptor that the ended domain has left.
        unsafe { libc::close(pipe) };
        // SAFETY: asks for no report.
        let is_one_left = || unsafe {
            let mut report: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            libc::waitid(libc::P_ALL, 0, &mut report, options) == 0
        };
        let [make, take] = ["make", "take"].map(|name| one_number(&other, name));
        let begin = std::time::Instant::now();
        while is_one_left() {
            let child = make(4);
            assert_eq!(take(child), 4, "the other domain sees its own alone");
            assert!(begin.elapsed() < Duration::from_secs(60), "nobody waits for it");
        }
    });
}
