//! Record locks belong to the domain whose code has taken them.

use std::ffi::{CString, c_char, c_int};
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use hydrozoa_loader::{Library, Loader, OpenFlags};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::{Workshop, function, open};

use crate::replicas::{call, domains, open_in};

/// One domain's code. Functions return 0, or the line of the failed check, unless they say otherwise.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)
static struct flock range(int type, off_t start, off_t length)
{
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length };
    return lock;
}
static int set(int file, int type, off_t start, off_t length)
{
    struct flock lock = range(type, start, length);
    return fcntl(file, F_SETLK, &lock) ? errno : 0;
}
/* 0 if a lock is possible, else the owner; -2 if the report is wrong. */
static pid_t asked(int file, int type, off_t start, off_t length)
{
    struct flock lock = range(type, start, length);
    if (fcntl(file, F_GETLK, &lock))
        return -2;
    return lock.l_type == F_UNLCK ? 0 : lock.l_pid;
}
static int file = -1;
int opens(const char *path) { return file = open(path, O_RDWR | O_CREAT, 0666); }
int closes(void) { return close(file); }

/* Ways to lock a whole file. */
static int by_fcntl(int file) { return set(file, F_WRLCK, 0, 0); }
static int by_fcntl64(int file)
{
    struct flock64 lock = { .l_type = F_WRLCK };
    return fcntl64(file, F_SETLK64, &lock) ? errno : 0;
}
static int by_waiting(int file)
{
    struct flock lock = range(F_WRLCK, 0, 0);
    return fcntl(file, F_SETLKW, &lock) ? errno : 0;
}
static int by_lockf(int file) { lseek(file, 0, SEEK_SET); return lockf(file, F_TLOCK, 0) ? errno : 0; }
static int by_lockf64(int file) { lseek(file, 0, SEEK_SET); return lockf64(file, F_LOCK, 0) ? errno : 0; }
static int by_number(int file)
{
    struct flock lock = range(F_WRLCK, 0, 0);
    return syscall(SYS_fcntl, file, F_SETLK, &lock) ? errno : 0;
}
static int (*const lockers[])(int) = { by_fcntl, by_fcntl64, by_waiting, by_lockf, by_lockf64, by_number };

/* Ways to lose it: closing any descriptor of the file. */
static int other(void)
{
    char path[64];
    sprintf(path, "/proc/self/fd/%d", file);
    return open(path, O_RDONLY);
}
static int by_unlock(void) { return set(file, F_UNLCK, 0, 0); }
static int by_lockf_unlock(void) { lseek(file, 0, SEEK_SET); return lockf(file, F_ULOCK, 0); }
static int by_close(void) { return close(other()); }
static int by_dup(void) { return close(dup(file)); }
static int by_dup2(void) { int one = other(), null = open("/dev/null", O_RDONLY); dup2(null, one); close(null); return close(one); }
static int by_dup3(void) { int one = other(), null = open("/dev/null", O_RDONLY); dup3(null, one, O_CLOEXEC); close(null); return close(one); }
static int by_range(void) { int one = other(); return close_range(one, one, 0); }
static int by_stream(void) { return fclose(fdopen(other(), "r")); }
static int by_another_stream(void) { FILE *stream = fdopen(other(), "r"); return fclose(freopen("/dev/null", "r", stream)); }
static int by_close_number(void) { return syscall(SYS_close, other()); }
static int (*const losers[])(void) = {
    by_unlock, by_lockf_unlock, by_close, by_dup, by_dup2, by_dup3, by_range, by_stream, by_another_stream,
    by_close_number,
};
int ways(void) { return sizeof lockers / sizeof *lockers * sizeof losers / sizeof *losers; }
int takes(int way) { return lockers[way % (sizeof lockers / sizeof *lockers)](file); }
int loses(int way) { return losers[way / (sizeof lockers / sizeof *lockers)](); }

/* Another domain of the process, or another process, has all of it. */
int sees_all_of_another(pid_t owner)
{
    CHECK(set(file, F_WRLCK, 0, 0) == EAGAIN && set(file, F_RDLCK, 7, 1) == EAGAIN);
    CHECK(lseek(file, 5, SEEK_SET) == 5 && lockf(file, F_TLOCK, 1) && errno == EAGAIN);
    CHECK(lockf(file, F_TEST, 1) && errno == EACCES);
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_CUR, .l_start = 1, .l_len = 1 };
    CHECK(!fcntl(file, F_GETLK, &lock) && lock.l_type == F_WRLCK && lock.l_whence == SEEK_SET);
    CHECK(lock.l_start == 0 && lock.l_len == 0);
    CHECK(lock.l_pid == owner);
    return 0;
}
int sees_none(void) { return asked(file, F_WRLCK, 0, 0) ? __LINE__ : 0; }
int sees_its_own(void)
{
    CHECK(asked(file, F_WRLCK, 0, 0) == 0 && lockf(file, F_TEST, 0) == 0);
    CHECK(set(file, F_RDLCK, 3, 4) == 0 && set(file, F_WRLCK, 0, 0) == 0);
    return 0;
}

/* Counts in the file: only who has the lock is right. */
int counts(const char *path)
{
    for (int i = 0; i < 200; i++) {
        int number = 0, mine = open(path, O_RDWR);
        char text[16] = "";
        CHECK(mine >= 0 && lockf(mine, F_LOCK, 0) == 0);
        CHECK(read(mine, text, sizeof text - 1) >= 0);
        sscanf(text, "%d", &number);
        usleep(100);
        CHECK(pwrite(mine, text, sprintf(text, "%d", number + 1), 0) > 0);
        CHECK(close(mine) == 0);
    }
    return 0;
}

/* Errors and kinds, as the kernel has them for a process's locks. */
int rules(const char *path)
{
    int reads = open(path, O_RDONLY | O_CREAT, 0666), writes = open(path, O_WRONLY), both = open(path, O_RDWR);
    CHECK(reads >= 0 && writes >= 0 && both >= 0);
    CHECK(set(reads, F_WRLCK, 0, 0) == EBADF && set(writes, F_RDLCK, 0, 0) == EBADF);
    CHECK(set(-1, F_WRLCK, 0, 0) == EBADF && set(both, 17, 0, 0) == EINVAL && set(both, F_WRLCK, -1, 0) == EINVAL);
    CHECK(asked(both, F_UNLCK, 0, 0) == -2 && errno == EINVAL);
    CHECK(fcntl(both, F_SETLK, NULL) == -1 && errno == EFAULT);
    CHECK(lockf(both, 99, 0) == -1 && errno == EINVAL);
    /* The domain's locks are one, by whichever descriptor. */
    CHECK(set(reads, F_RDLCK, 0, 10) == 0 && set(both, F_WRLCK, 5, 10) == 0 && set(writes, F_UNLCK, 0, 2) == 0);
    CHECK(set(writes, F_WRLCK, 2, 1) == 0 && set(reads, F_RDLCK, 2, 1) == 0 && asked(reads, F_WRLCK, 0, 0) == 0);
    CHECK(ftruncate(both, 100) == 0);
    struct flock end = { .l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -10, .l_len = 5 };
    CHECK(fcntl(both, F_SETLK, &end) == 0);
    struct flock back = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 60, .l_len = -10 };
    CHECK(fcntl(both, F_SETLK, &back) == 0);
    file = both;
    return 0;
}
/* What another domain then finds locked. */
int sees_rules(const char *path)
{
    static const struct { int read, write, first, last; } expected[] = {
        {0, 0, 0, 1}, {0, 1, 2, 4}, {1, 1, 5, 14}, {0, 0, 15, 49}, {1, 1, 50, 59}, {0, 0, 60, 89}, {1, 1, 90, 94},
        {0, 0, 95, 200},
    };
    int mine = open(path, O_RDWR);
    for (int i = 0; i < 8; i++)
        for (int byte = expected[i].first; byte <= expected[i].last; byte++) {
            CHECK((asked(mine, F_RDLCK, byte, 1) == getpid()) == expected[i].read);
            CHECK((asked(mine, F_WRLCK, byte, 1) == getpid()) == expected[i].write);
        }
    return close(mine);
}

/* Files that have no name. */
int nameless(int way, const char *directory)
{
    char path[300];
    sprintf(path, "%s/deleted", directory);
    file = way == 0 ? memfd_create("m", 0) : way == 1 ? open(directory, O_TMPFILE | O_RDWR, 0600) : open(path, O_RDWR | O_CREAT, 0600);
    unlink(path);
    return file;
}
int uses(int number) { return file = number; }

/* A child of a fork has no lock, and what it closes releases nothing. */
pid_t forks(void)
{
    if (by_fcntl(file))
        return -1;
    int ready[2], go[2];
    char byte;
    if (pipe(ready) || pipe(go))
        return -2;
    pid_t pid = fork();
    if (!pid) {
        if (set(file, F_WRLCK, 0, 0) != EAGAIN || asked(file, F_RDLCK, 0, 1) == 0)
            _exit(1);
        close(file);
        write(ready[1], "", 1);
        /* The parent has released it: no descriptor of the child keeps it. */
        read(go[0], &byte, 1);
        _exit(7);
    }
    return read(ready[0], &byte, 1) == 1 ? pid : -3;
}
int ends_fork(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    return waitpid(pid, &status, 0) == pid ? 0 : __LINE__;
}
/* Between vfork and exec a child closes descriptors of its own. */
int vforks(void)
{
    CHECK(by_fcntl(file) == 0);
    int status;
    pid_t pid = vfork();
    if (!pid) {
        close(file);
        close_range(3, ~0u, 0);
        execl("/bin/true", "true", (char *)0);
        _exit(1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    return 0;
}
/* A program may close all that it does not know. */
int closes_all_others(void)
{
    for (int one = 3; one < 2000; one++)
        if (one != file)
            close(one);
    CHECK(close_range(file + 1, ~0u, 0) == 0);
    return 0;
}

static volatile int handled;
static void handle(int signal) { handled++; }
static pthread_t waiter;
static void *disturb(void *unused)
{
    usleep(50000);
    pthread_kill(waiter, SIGUSR1);
    return 0;
}
int is_interrupted(void)
{
    struct sigaction action = { .sa_handler = handle };
    sigaction(SIGUSR1, &action, 0);
    pthread_t thread;
    waiter = pthread_self();
    pthread_create(&thread, 0, disturb, 0);
    CHECK(by_waiting(file) == EINTR && handled == 1);
    pthread_join(thread, 0);
    return 0;
}
int takes_bytes(int first) { return set(file, F_WRLCK, first, 1); }
int waits_for_bytes(int first)
{
    struct flock lock = range(F_WRLCK, first, 1);
    return fcntl(file, F_SETLKW, &lock) ? errno : 0;
}
/* Nanoseconds that a call takes, of those that have nothing to do with locks. */
static long now(void) { struct timespec time; clock_gettime(CLOCK_MONOTONIC, &time); return time.tv_sec * 1000000000L + time.tv_nsec; }
int costs(int which)
{
    long begin = now(), rounds = 200000;
    for (long i = 0; i < rounds; i++)
        which == 0 ? fcntl(0, F_GETFD) : which == 1 ? close(-1) : which == 2 ? syscall(SYS_getppid) : dup2(-1, 5);
    return (now() - begin) / rounds;
}
int locks_and_unlocks(void)
{
    long begin = now(), rounds = 20000;
    for (long i = 0; i < rounds; i++)
        if (set(file, F_WRLCK, 0, 1) || set(file, F_UNLCK, 0, 1))
            return -1;
    return (now() - begin) / rounds / 2;
}
"#;

fn libraries(shop: &Workshop, count: usize) -> Vec<Library> {
    let path = shop.build("libfiles.so", SOURCE, &["-pthread"]);
    open_in(&domains(count), &path)
}

/// A function of one number.
fn ask(library: &Library, name: &str, number: c_int) -> c_int {
    // SAFETY: the libraries declare the functions that tests call so.
    let function: extern "C" fn(c_int) -> c_int = unsafe { function(library, name) };
    function(number)
}

/// A function of a path.
fn ask_of(library: &Library, name: &str, path: &Path) -> c_int {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: as above.
    let function: extern "C" fn(*const c_char) -> c_int = unsafe { function(library, name) };
    function(path.as_ptr())
}

/// A lock of the host, by the C library's own function, or the number of an error.
fn host_locks(path: &Path, kind: c_int) -> c_int {
    use std::os::fd::AsRawFd;
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    // SAFETY: zero is a value of every field, and the lock is valid.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = kind as libc::c_short;
        match libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &lock) {
            0 => 0,
            _ => std::io::Error::last_os_error().raw_os_error().unwrap(),
        }
    }
}

fn own() -> c_int {
    std::process::id() as c_int
}

#[test]
fn a_lock_excludes_other_domains_the_host_and_other_processes_until_it_is_lost() {
    alone(PATIENCE, || {
        let shop = Workshop::new("locks-ways");
        let all = libraries(&shop, 2);
        let path = shop.path("file");
        all.iter().for_each(|one| assert!(ask_of(one, "opens", &path) >= 0));
        for way in 0..call(&all[0], "ways") {
            assert_eq!(ask(&all[0], "takes", way), 0, "way {way}");
            assert_eq!(ask(&all[1], "sees_all_of_another", own()), 0, "the line, way {way}");
            assert_eq!(call(&all[0], "sees_its_own"), 0, "the line, way {way}");
            assert_eq!(host_locks(&path, libc::F_RDLCK), libc::EAGAIN, "way {way}");
            assert_eq!(ask(&all[0], "loses", way), 0, "way {way}");
            assert_eq!(call(&all[1], "sees_none"), 0, "the line, way {way}");
        }
    });
}

#[test]
fn three_domains_and_a_process_count_to_800_in_one_file() {
    alone(PATIENCE, || {
        let shop = Workshop::new("locks-count");
        let all = libraries(&shop, 3);
        let path = shop.path("count");
        std::fs::write(&path, "0").unwrap();
        // SAFETY: the child of a process with one thread; it leaves without running what the parent has registered.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: always.
            unsafe { libc::_exit(ask_of(&all[0], "counts", &path).min(255)) };
        }
        let together = Barrier::new(3);
        thread::scope(|scope| {
            for library in &all {
                scope.spawn(|| {
                    together.wait();
                    assert_eq!(ask_of(library, "counts", &path), 0, "the line");
                });
            }
        });
        let mut status = 0;
        // SAFETY: the child is ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "800");
    });
}

#[test]
fn the_locks_of_a_domain_obey_the_rules_for_those_of_a_process() {
    alone(PATIENCE, || {
        let shop = Workshop::new("locks-rules");
        let all = libraries(&shop, 2);
        let path = shop.path("file");
        assert_eq!(ask_of(&all[0], "rules", &path), 0, "the line");
        assert_eq!(ask_of(&all[1], "sees_rules", &path), 0, "the line");
        assert_eq!(ask_of(&all[1], "sees_rules", &path), 0, "another domain's close releases none");
    });
}

#[test]
fn files_without_a_name_are_locked_too() {
    alone(PATIENCE, || {
        let shop = Workshop::new("locks-nameless");
        let all = libraries(&shop, 2);
        let directory = CString::new(shop.path("").to_str().unwrap()).unwrap();
        // SAFETY: the library declares it so.
        let nameless: extern "C" fn(c_int, *const c_char) -> c_int =
            unsafe { function(&all[0], "nameless") };
        for way in 0..3 {
            let file = nameless(way, directory.as_ptr());
            assert!(file >= 0, "way {way}");
            assert_eq!(ask(&all[1], "uses", file), file);
            assert_eq!(ask(&all[0], "takes", 0), 0, "way {way}");
            assert_eq!(ask(&all[1], "sees_all_of_another", own()), 0, "the line, way {way}");
            assert_eq!(call(&all[0], "closes"), 0, "way {way}");
        }
    });
}

#[test]
fn children_have_no_locks_and_release_none() {
    alone(PATIENCE, || {
        let shop = Workshop::new("locks-forks");
        let all = libraries(&shop, 2);
        let path = shop.path("file");
        all.iter().for_each(|one| assert!(ask_of(one, "opens", &path) >= 0));
        let child = call(&all[0], "forks");
        assert!(child > 0);
        assert_eq!(ask(&all[1], "sees_all_of_another", own()), 0, "the line");
        assert_eq!(ask(&all[0], "loses", 0), 0);
        assert_eq!(call(&all[1], "sees_none"), 0, "the child, which lives, keeps it");
        assert_eq!(ask(&all[0], "ends_fork", child), 0, "the line");
        assert_eq!(call(&all[0], "vforks"), 0, "the line");
        assert_eq!(ask(&all[1], "sees_all_of_another", own()), 0, "the line");
    });
}

#[test]
fn a_program_that_closes_all_descriptors_closes_none_of_the_loader_s() {
    alone(PATIENCE, || {
        let shop = Workshop::new("locks-close-all");
        let all = libraries(&shop, 2);
        let path = shop.path("file");
        let file = ask_of(&all[0], "opens", &path);
        assert_eq!(ask(&all[0], "takes", 0), 0);
        assert_eq!(call(&all[0], "closes_all_others"), 0, "the line");
        assert!(ask_of(&all[1], "opens", &path) > file);
        assert_eq!(ask(&all[1], "sees_all_of_another", own()), 0, "the line");
        assert_eq!(ask(&all[0], "loses", 0), 0);
        assert_eq!(call(&all[1], "sees_none"), 0, "the line");
    });
}

#[test]
fn a_wait_for_a_lock_ends_by_a_signal_by_the_owner_s_end_and_not_in_a_deadlock() {
    alone(PATIENCE, || {
        let shop = Workshop::new("locks-waits");
        let path = shop.build("libfiles.so", SOURCE, &["-pthread"]);
        let loader = Loader::builder().build().unwrap();
        let domains = ["one", "two", "ends"].map(|name| loader.domain(name).build().unwrap());
        let [one, two, ends] =
            domains.each_ref().map(|domain| open(domain, &path, OpenFlags::NOW).unwrap());
        let file = shop.path("file");
        for library in [&one, &two, &ends] {
            assert!(ask_of(library, "opens", &file) >= 0);
        }
        assert_eq!(ask(&ends, "takes", 0), 0);
        assert_eq!(call(&one, "is_interrupted"), 0, "the line");
        let [_, _, ending] = domains;
        thread::scope(|scope| {
            let waits = scope.spawn(|| ask(&one, "takes", 2));
            // SAFETY: none of its code runs, and nobody uses it any more.
            unsafe { ending.retire(|| ()) };
            assert_eq!(waits.join().unwrap(), 0);
        });
        assert_eq!(ask(&one, "loses", 0), 0);
        // Each holds the lock that the other wants.
        assert_eq!((ask(&one, "takes_bytes", 1), ask(&two, "takes_bytes", 2)), (0, 0));
        let mut results = thread::scope(|scope| {
            let waits = [(&one, 2), (&two, 1)].map(|(library, bytes)| {
                scope.spawn(move || {
                    let result = ask(library, "waits_for_bytes", bytes);
                    if result != 0 {
                        assert_eq!(ask(library, "loses", 0), 0);
                    }
                    result
                })
            });
            waits.map(|wait| wait.join().unwrap())
        });
        results.sort_unstable();
        assert_eq!(results, [0, libc::EDEADLK]);
    });
}

/// Calls unrelated to locks cost a few more instructions; a lock costs a few more system calls.
#[test]
fn calls_that_lock_nothing_cost_a_few_nanoseconds_more() {
    alone(PATIENCE, || {
        let shop = Workshop::new("locks-costs");
        let own = libraries(&shop, 1);
        let path = shop.build("libplain.so", SOURCE, &["-pthread"]);
        let plain = Loader::builder().build().unwrap();
        let plain = plain.domain("program").extend_program().build().unwrap();
        let plain = open(&plain, &path, OpenFlags::NOW).unwrap();
        let least = |library: &Library, name, number| {
            (0..7).map(|_| ask(library, name, number)).min().unwrap()
        };
        let mut table = Vec::new();
        for (which, name) in ["fcntl", "close", "syscall", "dup2"].iter().enumerate() {
            let [plainly, here] =
                [&plain, &own[0]].map(|library| least(library, "costs", which as c_int));
            table.push(format!("{name}: {plainly} ns plainly, {here} ns in a domain"));
        }
        let file = shop.path("file");
        let mut locks = [0; 2];
        for (cost, library) in locks.iter_mut().zip([&plain, &own[0]]) {
            assert!(ask_of(library, "opens", &file) >= 0);
            *cost = (0..5).map(|_| call(library, "locks_and_unlocks")).min().unwrap();
            assert_eq!(call(library, "closes"), 0);
        }
        let table = table.join("\n");
        println!("{table}\na lock: {} ns plainly, {} ns in a domain", locks[0], locks[1]);
        assert!(locks[1] < 20_000, "a lock takes {} ns", locks[1]);
    });
}
