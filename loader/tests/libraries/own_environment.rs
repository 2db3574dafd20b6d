//! Domains with environments of their own.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ops::Range;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use crate::replicas::call;
use hydrozoa_loader::{Domain, Library, Loader, OpenFlags, current};
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::{Workshop, function, open};

/// Domains with an environment each, and one without.
fn libraries(path: &Path, own: Range<usize>) -> (Vec<Library>, Library) {
    let loader = Loader::builder().build().unwrap();
    let open = |domain: &Domain| open(domain, path, OpenFlags::NOW).unwrap();
    let own = own.map(|index| {
        let entries = [
            format!("VIEW={index}"),
            "STAYS=1".into(),
            "PATH=/nowhere:/usr/bin:/bin".into(),
            format!("ONLY_{index}=1"),
        ];
        let entries = entries.map(|entry| CString::new(entry).unwrap());
        open(&loader.domain(&format!("own {index}")).environment(entries).build().unwrap())
    });
    (own.collect(), open(&loader.domain("of the process").build().unwrap()))
}

/// The strings of the process's environment, and where they are.
fn process() -> Vec<(usize, CString)> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: no other thread assigns to it, by these tests.
    let mut entry = unsafe { environ };
    let mut all = Vec::new();
    // SAFETY: an array of strings that ends with a null pointer.
    while let Some(text) = unsafe { (*entry).as_ref() } {
        // SAFETY: as above.
        all.push((entry as usize, unsafe { CStr::from_ptr(text) }.to_owned()));
        entry = entry.wrapping_add(1);
    }
    all
}

/// Code of a domain that reads and changes the environment: `own` has one of its own, `shared` the process's.
const OWN: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **__environ, **_environ;
#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)
typedef char *reader(const char *);
static int is(const char *name, const char *value)
{
    const char *found = getenv(name);
    return value ? found && !strcmp(found, value) : !found;
}
static int has(char **entries, const char *entry)
{
    for (; entries && *entries; entries++)
        if (!strcmp(*entries, entry))
            return 1;
    return 0;
}
static char *given, *behind;
__attribute__((constructor)) static void begin(int count, char **arguments, char **variables)
{
    for (; *variables; variables++)
        if (!strncmp(*variables, "VIEW=", 5))
            given = *variables;
    for (variables = arguments + count + 1; *variables; variables++)
        if (!strncmp(*variables, "VIEW=", 5))
            behind = *variables;
}
static void *in_a_thread(void *value) { return is("VIEW", value) ? value : NULL; }
int own(int index, int round)
{
    char view[8], entry[16], only[16], changed[16];
    static char put[] = "PUT=1", *assigned[] = { "ASSIGNED=1", NULL };
    snprintf(view, sizeof view, "%d", index);
    snprintf(entry, sizeof entry, "VIEW=%d", index);
    snprintf(only, sizeof only, "ONLY_%d", index);
    snprintf(changed, sizeof changed, "%d.%d", index, round);
    /* Functions and variables, and what look-ups find. */
    CHECK(is("VIEW", view) && is(only, "1") && is("HOST", NULL) && is("", NULL));
    CHECK(!strcmp(secure_getenv("VIEW"), view));
    CHECK(has(environ, entry) && &environ == &__environ && &environ == &_environ);
    CHECK(dlsym(RTLD_DEFAULT, "environ") == (void *)&environ);
    CHECK(dlsym(RTLD_NEXT, "__environ") == (void *)&environ);
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    CHECK(libc && dlsym(libc, "environ") == (void *)&environ);
    CHECK(!strcmp(((reader *)dlsym(libc, "getenv"))("VIEW"), view));
    CHECK(!strcmp(((reader *)dlsym(RTLD_NEXT, "getenv"))("VIEW"), view));
    Dl_info self;
    CHECK(dladdr((void *)in_a_thread, &self));
    void *own = dlopen(self.dli_fname, RTLD_NOW);
    CHECK(own && !strcmp(((reader *)dlsym(own, "getenv"))("VIEW"), view));
    CHECK(dlsym(libc, "qsort"));
    CHECK(given && !strcmp(given, entry) && behind && !strcmp(behind, entry));
    /* Changes. */
    CHECK(!setenv("CHANGED", changed, 1) && is("CHANGED", changed));
    CHECK(!setenv("CHANGED", "x", 0) && is("CHANGED", changed));
    CHECK(!putenv(put) && is("PUT", "1") && !unsetenv("PUT") && is("PUT", NULL));
    char **kept = environ;
    environ = assigned;
    CHECK(is("VIEW", NULL) && is("ASSIGNED", "1") && !setenv("B", "1", 1) && has(environ, "B=1"));
    CHECK(!clearenv() && !environ && is("ASSIGNED", NULL));
    environ = kept;
    CHECK(is("VIEW", view) && is("STAYS", "1") && is("CHANGED", changed));
    /* Threads and children. */
    pthread_t thread;
    void *same = NULL;
    CHECK(!pthread_create(&thread, NULL, in_a_thread, view) && !pthread_join(thread, &same));
    CHECK(same == view);
    pid_t child = fork();
    if (!child)
        _exit(is("VIEW", view) && !setenv("VIEW", "child", 1) && is("VIEW", "child") ? 0 : 1);
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0 && is("VIEW", view));
    return 0;
}
int shared(void)
{
    CHECK(is("HOST", "1") && is("VIEW", NULL) && is("STAYS", NULL) && is("CHANGED", NULL));
    CHECK(!given && !behind && has(environ, "HOST=1") && dlsym(RTLD_DEFAULT, "environ") == (void *)&environ);
    return 0;
}
"#;

#[test]
fn three_domains_have_environments_of_their_own_beside_one_that_has_the_process_s() {
    alone(PATIENCE, || {
        let shop = Workshop::new("environment-own");
        let path = shop.build("libown.so", OWN, &[]);
        // SAFETY: this process has only one thread so far.
        unsafe { std::env::set_var("HOST", "1") };
        let before = process();
        let (own, shared) = libraries(&path, 0..3);
        let barrier = Barrier::new(4);
        thread::scope(|scope| {
            for (library, index) in own.iter().zip(0..) {
                // SAFETY: the library declares it so.
                let own: extern "C" fn(c_int, c_int) -> c_int = unsafe { function(library, "own") };
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    for round in 0..20 {
                        assert_eq!(own(index, round), 0, "the line that does not hold");
                    }
                });
            }
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..200 {
                    assert_eq!(call(&shared, "shared"), 0, "the line that does not hold");
                }
            });
        });
        assert_eq!(process(), before, "the process's environment is untouched");
    });
}

/// The ways to start a program; each must hand over the domain's environment.
const PROGRAMS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)
static char *words[] = { "sh", "-c", "exit $VIEW", NULL };
static int status_of(pid_t child)
{
    int status = -1;
    if (waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
/* The exit status of a child that executes one way. */
static int executed(int way)
{
    pid_t child = way % 2 ? fork() : vfork();
    if (child)
        return status_of(child);
    switch (way / 2) {
    case 0: execv("/bin/sh", words); break;
    case 1: execvp("sh", words); break;
    case 2: execl("/bin/sh", "sh", "-c", "exit $(($VIEW+$#-7))", "0", "1", "2", "3", "4", "5", "6", "7", NULL); break;
    case 3: execlp("sh", "sh", "-c", "exit $(($VIEW+$#-1))", "0", "1", NULL); break;
    case 4: execvpe("sh", words, environ); break;
    case 5: execve("/bin/sh", words, environ); break;
    }
    _exit(99);
}
int starts(int index)
{
    pid_t child = 0;
    for (int way = 0; way < 12; way++)
        if (executed(way) != index)
            return 1000 + way;
    CHECK(!posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ) && status_of(child) == index);
    CHECK(!posix_spawnp(&child, "sh", NULL, NULL, words, environ) && status_of(child) == index);
    CHECK(posix_spawnp(&child, "absent", NULL, NULL, words, environ) == ENOENT);
    CHECK(posix_spawnp(&child, "", NULL, NULL, words, environ) == ENOENT);
    CHECK(execvp("absent", words) == -1 && errno == ENOENT);
    CHECK(execlp("absent", "absent", NULL) == -1 && errno == ENOENT);
    CHECK(execl("/nowhere/absent", "absent", "a", "b", "c", "d", "e", "f", NULL) == -1 && errno == ENOENT);
    /* A folder that comes first in PATH, and a script without a first line. */
    char folder[] = "/tmp/hydrozoa-path-XXXXXX", script[64], path[128], write[128];
    CHECK(mkdtemp(folder));
    snprintf(script, sizeof script, "%s/hydrozoa-script", folder);
    /* By a shell: another thread's child might inherit a file that this process writes, which then cannot be executed. */
    snprintf(write, sizeof write, "echo 'exit $((VIEW + 10))' > %s", script);
    CHECK(system(write) == 0);
    CHECK(execvp("hydrozoa-script", words) == -1 && errno == ENOENT);
    snprintf(path, sizeof path, "%s:%s", folder, getenv("PATH"));
    CHECK(!setenv("PATH", path, 1));
    CHECK(execvp("hydrozoa-script", words) == -1 && errno == EACCES);
    CHECK(posix_spawnp(&child, "hydrozoa-script", NULL, NULL, words, environ) == EACCES);
    char mode[96];
    snprintf(mode, sizeof mode, "chmod +x %s", script);
    CHECK(system(mode) == 0);
    child = fork();
    if (!child) {
        execlp("hydrozoa-script", "hydrozoa-script", NULL);
        _exit(99);
    }
    CHECK(status_of(child) == index + 10);
    CHECK(posix_spawnp(&child, "hydrozoa-script", NULL, NULL, words, environ) == ENOEXEC);
    CHECK(!unlink(script) && !rmdir(folder));
    return 0;
}
static void interrupted(int signal) { (void)signal; }
int shells(int index)
{
    char line[64] = "";
    CHECK(system(NULL) == 1);
    int status = system("exit $VIEW");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == index);
    status = system("-absent 2>/dev/null");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 127);
    FILE *stream = popen("echo $VIEW", "r");
    CHECK(stream && fgets(line, sizeof line, stream) && atoi(line) == index);
    status = pclose(stream);
    CHECK(status == 0);
    stream = popen("read line; exit $(($VIEW + $line))", "we");
    CHECK(stream && fputs("10\n", stream) >= 0);
    status = pclose(stream);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == index + 10);
    CHECK(!popen("true", "x") && errno == EINVAL && !popen("true", "") && errno == EINVAL);
    return 0;
}
int signals(void)
{
    struct sigaction action = { .sa_handler = interrupted }, after;
    CHECK(!sigaction(SIGINT, &action, NULL));
    /* The parent ignores the signal while it waits; the shell does not. */
    int status = system("kill -INT $PPID; kill -INT $$; exit 1");
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    CHECK(!sigaction(SIGINT, NULL, &after) && after.sa_handler == interrupted);
    sigset_t blocked;
    CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &blocked) && !sigismember(&blocked, SIGCHLD));
    return 0;
}
"#;

#[test]
fn the_programs_that_a_domain_starts_get_its_environment() {
    alone(PATIENCE, || {
        let shop = Workshop::new("environment-programs");
        let path = shop.build("libprograms.so", PROGRAMS, &[]);
        let before = process();
        let (own, _) = libraries(&path, 3..6);
        thread::scope(|scope| {
            for (library, index) in own.iter().zip(3..) {
                for name in ["starts", "shells"] {
                    // SAFETY: the library declares them so.
                    let run: extern "C" fn(c_int) -> c_int = unsafe { function(library, name) };
                    scope.spawn(move || {
                        assert_eq!(
                            run(index),
                            0,
                            "the line that does not hold, or 1000 and the way"
                        );
                    });
                }
            }
        });
        assert_eq!(call(&own[0], "signals"), 0, "the line that does not hold");
        assert_eq!(process(), before, "the process's environment is untouched");
    });
}

/// The hour of the first second of 1970, before and after its zone is set to Tokyo's; and that after `tzset` as hundreds.
const ZONE: &str = r#"
#include <stdlib.h>
#include <time.h>
int hour(void)
{
    time_t begin = 0;
    struct tm parts;
    return localtime_r(&begin, &parts)->tm_hour;
}
int go_to_tokyo(void)
{
    setenv("TZ", "Asia/Tokyo", 1);
    int before = hour();
    tzset();
    return before + 100 * hour();
}
"#;

#[test]
fn the_time_zone_goes_by_the_environment_of_the_domain() {
    alone(PATIENCE, || {
        let shop = Workshop::new("own-zone");
        let path = shop.build("libzone.so", ZONE, &[]);
        let loader = Loader::builder().build().unwrap();
        let process = || {
            // SAFETY: numbers and a pointer, for which zero is a value; the places are the test's.
            unsafe {
                let mut parts = std::mem::zeroed();
                (*libc::localtime_r(&0, &mut parts)).tm_hour
            }
        };
        let hour = process();
        let own =
            |zone: &CStr| loader.domain("own").environment([zone.to_owned()]).build().unwrap();
        let shared = loader.domain("shared").build().unwrap();
        let domains = [own(c"TZ=<-05>5"), own(c"TZ=<-06>6"), shared];
        let libraries =
            domains.each_ref().map(|domain| open(domain, &path, OpenFlags::NOW).unwrap());
        let ask = |index: usize, name| {
            // SAFETY: the thread runs code of the domain while the mark is there.
            let _inside = unsafe { current::enter(domains[index].id()) };
            call(&libraries[index], name)
        };
        let hours = || [0, 1, 2].map(|index| ask(index, "hour"));
        assert_eq!(hours(), [19, 18, hour]);
        // The re-entrant function looks at the zone when it is set.
        assert_eq!(ask(0, "go_to_tokyo"), 919);
        assert_eq!(hours(), [9, 18, hour]);
        assert_eq!(ask(2, "go_to_tokyo"), hour + 900);
        assert_eq!(hours(), [9, 18, 9]);
        assert_eq!(process(), hour);
    });
}
