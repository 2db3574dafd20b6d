//! `syslog`: three domains log at once, each under its own name.

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::thread;

use hydrozoa_loader::current;
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::{Workshop, function};

use super::meet;
use crate::replicas::{domains, open_in};

const SOURCE: &str = r#"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <syslog.h>
extern void __syslog_chk(int, int, const char *, ...);
extern void __vsyslog_chk(int, int, const char *, va_list);
static char name[16];
static void by_list(int checked, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (checked)
        __vsyslog_chk(LOG_ERR, 1, format, arguments);
    else
        vsyslog(LOG_ERR, format, arguments);
    va_end(arguments);
}
/* The mask lets one level more through for each number. */
int begin(int me)
{
    snprintf(name, sizeof name, "program%d", me);
    openlog(name, LOG_PERROR, LOG_LOCAL0 + (me << 3));
    return setlogmask(LOG_UPTO(LOG_ERR + me));
}
int go_on(int me)
{
    syslog(LOG_ERR, "%s %d %f %ld %c %d %d %f %s", "text", me, 1.5, 1L << 40, 'x', 7, 8, 2.5, "last");
    syslog(LOG_WARNING, "warning %d", me);
    syslog(LOG_NOTICE, "notice\n");
    syslog(LOG_INFO, "info");
    errno = ENOENT;
    __syslog_chk(LOG_ERR, 1, "checked %d %f: %m", me, 0.25);
    by_list(0, "list %d %f", me, 0.5);
    by_list(1, "checked list %d %f", me, 0.75);
    return setlogmask(0);
}
int end(int me)
{
    closelog();
    int mask = setlogmask(0xff);
    openlog(name, LOG_PERROR | LOG_PID, 0);
    syslog(LOG_ERR, "%d", me);
    closelog();
    return mask;
}
"#;

#[test]
fn each_domain_logs_under_its_own_name_what_its_own_mask_lets_through() {
    alone(PATIENCE, || {
        let shop = Workshop::new("c-library-log");
        let path = shop.build("liblog.so", SOURCE, &[]);
        let file = shop.path("errors");
        let errors = File::create(&file).unwrap();
        // SAFETY: the descriptors are open.
        let before = unsafe { libc::dup(2) };
        // SAFETY: as above.
        unsafe { libc::dup2(errors.as_raw_fd(), 2) };
        let domains = domains(3);
        let libraries = open_in(&domains, &path);
        thread::scope(|scope| {
            for (me, (domain, library)) in domains.iter().zip(&libraries).enumerate() {
                scope.spawn(move || {
                    // SAFETY: the source declares them so.
                    let [begin, go_on, end] = ["begin", "go_on", "end"].map(|name| unsafe {
                        function::<extern "C" fn(c_int) -> c_int>(library, name)
                    });
                    // SAFETY: the thread runs code of the domain while the mark is there.
                    let _inside = unsafe { current::enter(domain.id()) };
                    let me = me as c_int;
                    assert_eq!(begin(me), 0xff);
                    for _ in 0..50 {
                        meet();
                        assert_eq!(go_on(me), (1 << (4 + me)) - 1);
                    }
                    assert_eq!(end(me), (1 << (4 + me)) - 1);
                });
            }
        });
        // SAFETY: as above.
        unsafe { libc::dup2(before, 2) };
        let printed = std::fs::read_to_string(&file).unwrap();
        for me in 0..3 {
            let own = format!("program{me}: ");
            let lines: Vec<&str> =
                printed.lines().filter_map(|line| line.strip_prefix(&own)).collect();
            let mut expected =
                vec![format!("text {me} 1.500000 1099511627776 x 7 8 2.500000 last")];
            expected.extend((me > 0).then(|| format!("warning {me}")));
            expected.extend((me > 1).then(|| "notice".to_owned()));
            expected.push(format!("checked {me} 0.250000: No such file or directory"));
            expected.push(format!("list {me} 0.500000"));
            expected.push(format!("checked list {me} 0.750000"));
            let expected = expected.iter().map(String::as_str).cycle().take(50 * expected.len());
            assert_eq!(lines, expected.collect::<Vec<_>>());
            let last = format!("program{me}[{}]: {me}", std::process::id());
            assert_eq!(printed.lines().filter(|line| *line == last).count(), 1, "{printed}");
        }
    });
}
