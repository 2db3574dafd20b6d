//! Children that code of one domain forks while threads of others use the C library.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hydrozoa_loader::current;
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::Workshop;

use crate::replicas::{call, domains, open_in};

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <grp.h>
#include <libintl.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
int use(void)
{
    char text[64];
    time_t now = time(NULL);
    struct tm parts;
    int count = 0;
    for (int i = 0; i < 20; i++) {
        localtime_r(&now, &parts);
        strftime(text, sizeof text, "%c", localtime(&now));
        mktime(&parts);
        ctime(&now);
    }
    setgrent();
    while (getgrent())
        count++;
    endgrent();
    getservbyname("http", "tcp");
    setlogmask(LOG_MASK(LOG_DEBUG));
    syslog(LOG_ERR, "nothing");
    gettext("a");
    rand();
    return count;
}
/* The signal that ends a child that hangs is SIGALRM. */
int fork_and_use(void)
{
    int count = use(), status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(use() == count ? 0 : 1);
    }
    waitpid(child, &status, 0);
    return status;
}
"#;

#[test]
fn a_child_finds_the_c_library_s_locks_free() {
    alone(PATIENCE, || {
        let shop = Workshop::new("c-library-forks");
        let path = shop.build("libforks.so", SOURCE, &[]);
        let domains = domains(3);
        let libraries = open_in(&domains, &path);
        let done = AtomicBool::new(false);
        let statuses: Vec<_> = thread::scope(|scope| {
            for me in [0, 1] {
                let (domain, library, done) = (&domains[me], &libraries[me], &done);
                scope.spawn(move || {
                    // SAFETY: the thread runs code of the domain while the mark is there.
                    let _inside = unsafe { current::enter(domain.id()) };
                    while !done.load(Ordering::Relaxed) {
                        call(library, "use");
                    }
                });
            }
            // SAFETY: as above.
            let _inside = unsafe { current::enter(domains[2].id()) };
            let statuses = (0..150).map(|_| call(&libraries[2], "fork_and_use"));
            let wrong = statuses.filter(|status| *status != 0).take(1).collect();
            done.store(true, Ordering::Relaxed);
            wrong
        });
        assert_eq!(statuses, [], "a child's status; 14 for one that hung");
    });
}
