//! Descriptors belong to the domain whose code has opened them, and a child has those of the domain that forks.

use std::ffi::c_int;

use hydrozoa_loader::Library;
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::{Workshop, function};

use crate::replicas::{call, domains, open_in};

/// One domain's code. Functions return 0, or the line of the failed check, unless they say otherwise.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)

/* A child that lives until the parent says so, and says first how many of the descriptors up to 400 it has. */
static pid_t child;
static int commands[2], answers[2];
static int count(void)
{
    int open = 0;
    for (int descriptor = 3; descriptor < 400; descriptor++)
        open += fcntl(descriptor, F_GETFD) >= 0;
    return open;
}
int forks(void)
{
    CHECK(!pipe(commands) && !pipe(answers));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(commands[1]);
        close(answers[0]);
        int open = count();
        char end;
        write(answers[1], &open, sizeof open);
        read(commands[0], &end, 1);
        exit(7);
    }
    close(commands[0]);
    close(answers[1]);
    return 0;
}
/* How many descriptors the child has, without its two. */
int child_has(void)
{
    int open = 0;
    return read(answers[0], &open, sizeof open) == sizeof open ? open - 2 : -1;
}
int ends_child(void)
{
    int status = 0;
    close(commands[1]);
    close(answers[0]);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    return 0;
}

/* Opens descriptors in every way. Returns their number. */
static int opened[100], number;
static void add(int descriptor) { if (descriptor >= 3) opened[number++] = descriptor; }
static void add_two(int status, const int *two) { if (!status) { add(two[0]); add(two[1]); } }
int opens_all(void)
{
    int two[2], listener = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    char path[4][32] = { "/tmp/hz-XXXXXX", "/tmp/hz-XXXXXX", "/tmp/hz-XXXXXX.x", "/tmp/hz-XXXXXX.x" };
    sigset_t none;
    sigemptyset(&none);
    number = 0;
    add(listener);
    add(open("/dev/null", O_RDWR));
    add(openat(AT_FDCWD, "/dev/null", O_RDWR));
    add(creat("/dev/null", 0600));
    add(dup(listener));
    add(fcntl(listener, F_DUPFD, 3));
    add(fcntl(listener, F_DUPFD_CLOEXEC, 3));
    add(dup2(listener, 300));
    add(dup3(listener, 301, O_CLOEXEC));
    add_two(pipe(two), two);
    add_two(pipe2(two, O_CLOEXEC), two);
    add_two(socketpair(AF_UNIX, SOCK_STREAM, 0, two), two);
    sprintf(name.sun_path + 1, "hz-descriptors-%d", getpid());
    if (bind(listener, (void *)&name, sizeof name) || listen(listener, 2))
        return -1;
    for (int way = 0; way < 2; way++) {
        int client = socket(AF_UNIX, SOCK_STREAM, 0);
        add(client);
        if (connect(client, (void *)&name, sizeof name))
            return -1;
        add(way ? accept4(listener, 0, 0, SOCK_CLOEXEC) : accept(listener, 0, 0));
    }
    add(mkstemp(path[0]));
    add(mkostemp(path[1], O_CLOEXEC));
    add(mkstemps(path[2], 2));
    add(mkostemps(path[3], 2, O_CLOEXEC));
    for (int file = 0; file < 4; file++)
        unlink(path[file]);
    add(memfd_create("test", 0));
    add(eventfd(0, 0));
    add(epoll_create(1));
    add(epoll_create1(0));
    add(inotify_init());
    add(inotify_init1(0));
    add(signalfd(-1, &none, 0));
    add(timerfd_create(CLOCK_MONOTONIC, 0));
    add(posix_openpt(O_RDWR | O_NOCTTY));
    add_two(openpty(two, two + 1, 0, 0, 0), two);
    add(fileno(fopen("/dev/null", "r")));
    add(fileno(tmpfile()));
    return number;
}

/* A pipe, whose reader sees its end when the last writer has closed it. */
static int ends[2];
int opens_pipe(void) { CHECK(!pipe(ends)); return 0; }
int sees_the_end(void)
{
    char byte;
    CHECK(!close(ends[1]));
    CHECK(!fcntl(ends[0], F_SETFL, O_NONBLOCK));
    CHECK(read(ends[0], &byte, 1) == 0);
    CHECK(!close(ends[0]));
    return 0;
}

/* A lock of flock, which ends with the last descriptor of its open file. */
static int locked;
static int opens_folder(void) { return open("/tmp", O_RDONLY | O_DIRECTORY); }
int locks(void) { CHECK((locked = opens_folder()) >= 0 && !flock(locked, LOCK_EX | LOCK_NB)); return 0; }
int gets_the_lock_again(void) { CHECK(!close(locked)); CHECK(!locks()); CHECK(!close(locked)); return 0; }

/* A stream with text that has not been written yet, into a memory file. */
static FILE *stream;
int begins_a_stream(void)
{
    int file = memfd_create("stream", 0);
    CHECK(file >= 0 && (stream = fdopen(dup(file), "w")));
    fputs("once", stream);
    return file;
}
int has_written(int file)
{
    char text[20] = { 0 };
    CHECK(!fclose(stream));
    CHECK(pread(file, text, sizeof text, 0) == 4 && !strcmp(text, "once"));
    close(file);
    return 0;
}

/* A number that another domain has had and closed belongs to whoever opens it next, by whatever function. */
int has_null_as(int number) { CHECK(dup2(open("/dev/null", O_RDONLY), number) == number); return 0; }
int closes(int number) { CHECK(!close(number)); return 0; }
"#;

fn libraries(shop: &Workshop) -> Vec<Library> {
    let path = shop.build("libdescriptors.so", SOURCE, &["-lutil", "-w"]);
    open_in(&domains(2), &path)
}

fn ask(library: &Library, name: &str, argument: c_int) -> c_int {
    // SAFETY: the library declares it so.
    let function: extern "C" fn(c_int) -> c_int = unsafe { function(library, name) };
    function(argument)
}

#[test]
fn a_child_has_the_descriptors_of_the_domain_that_forks_and_no_other_domain_s() {
    alone(PATIENCE, || {
        let shop = Workshop::new("descriptors-all");
        let [one, two] = &libraries(&shop)[..] else { unreachable!() };
        assert_eq!(call(two, "forks"), 0, "the line");
        let before = call(two, "child_has");
        assert_eq!(call(two, "ends_child"), 0, "the line");
        let opened = call(one, "opens_all");
        assert_eq!(opened, 36);
        assert_eq!(call(two, "forks"), 0, "the line");
        assert_eq!(call(two, "child_has"), before, "of another domain's");
        assert_eq!(call(two, "ends_child"), 0, "the line");
        assert_eq!(call(one, "forks"), 0, "the line");
        assert_eq!(call(one, "child_has"), before + opened, "of the own");
        assert_eq!(call(one, "ends_child"), 0, "the line");
    });
}

#[test]
fn a_pipe_a_lock_and_a_stream_end_with_their_domain_s_descriptors_while_another_s_child_lives() {
    alone(PATIENCE, || {
        let shop = Workshop::new("descriptors-ends");
        let [one, two] = &libraries(&shop)[..] else { unreachable!() };
        assert_eq!(call(one, "opens_pipe"), 0, "the line");
        assert_eq!(call(one, "locks"), 0, "the line");
        let file = call(one, "begins_a_stream");
        assert_eq!(call(two, "forks"), 0, "the line");
        assert!(call(two, "child_has") >= 0);
        assert_eq!(call(one, "sees_the_end"), 0, "the line");
        assert_eq!(call(one, "gets_the_lock_again"), 0, "the line");
        assert_eq!(call(two, "ends_child"), 0, "the line");
        assert_eq!(ask(one, "has_written", file), 0, "the line");
    });
}

#[test]
fn a_number_belongs_to_the_domain_that_has_opened_it_last() {
    alone(PATIENCE, || {
        let shop = Workshop::new("descriptors-again");
        let [one, two] = &libraries(&shop)[..] else { unreachable!() };
        assert_eq!(ask(one, "has_null_as", 350), 0, "the line");
        assert_eq!(ask(two, "has_null_as", 350), 0, "the line");
        let has = |library| {
            assert_eq!(call(library, "forks"), 0, "the line");
            let has = call(library, "child_has");
            assert_eq!(call(library, "ends_child"), 0, "the line");
            has
        };
        let with_it = has(two);
        assert_eq!(ask(two, "closes", 350), 0, "the line");
        assert_eq!(has(two), with_it - 1);
        // The host's, opened after a domain has closed that number.
        assert_eq!(ask(one, "has_null_as", 350), 0, "the line");
        assert_eq!(ask(one, "closes", 350), 0, "the line");
        // SAFETY: numbers that this test has.
        assert_eq!(unsafe { libc::dup2(libc::open(c"/dev/null".as_ptr(), 0), 350) }, 350);
        assert_eq!(has(two), with_it + 1, "the host's two descriptors stay");
    });
}
