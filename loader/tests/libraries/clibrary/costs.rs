//! The extra cost of a call where a domain has its own state.

use std::ffi::c_int;
use std::thread;
use std::time::Duration;

use hydrozoa_loader::current;
use hydrozoa_testkit::alone::{PATIENCE, alone};
use hydrozoa_testkit::libraries::{Workshop, function};

use super::{cast, in_process};
use crate::replicas::{domains, open_in};

/// Nanoseconds of one call, the least of several rounds.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <libintl.h>
#include <locale.h>
#include <math.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
static volatile double sink;
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}
static char text[] = "a b";
static char *arguments[] = { "p", "-a", NULL };
#define KINDS(X) \
    X("rand", sink = rand()) X("drand48", sink = drand48()) X("strtok", sink = (long)strtok(text, " ")) \
    X("gmtime", { time_t time = 1; sink = gmtime(&time)->tm_sec; }) \
    X("localtime", { time_t time = 1; sink = localtime(&time)->tm_sec; }) \
    X("gmtime_r", { time_t time = 1; struct tm parts; sink = gmtime_r(&time, &parts)->tm_sec; }) \
    X("ctime", { time_t time = 1; sink = *ctime(&time); }) \
    X("mbrtowc", { wchar_t wide; sink = mbrtowc(&wide, "a", 1, NULL); }) \
    X("gettext", sink = *gettext("a")) X("dgettext", sink = *dgettext("d", "a")) \
    X("lgamma", sink = lgamma(0.5)) X("l64a", sink = *l64a(12345)) \
    X("getopt", { optind = 0; sink = getopt(2, arguments, "ab"); }) \
    X("dup2", sink = dup2(2, 900)) X("fcntl", sink = fcntl(900, F_GETFD)) X("setlocale", sink = *setlocale(LC_ALL, NULL)) \
    X("getenv", sink = (long)getenv("HOME")) X("sigaction", { struct sigaction now; sink = sigaction(SIGUSR1, NULL, &now); }) \
    X("getservbyname", sink = (long)getservbyname("http", "tcp"))
const char *name(int kind)
{
    static const char *names[] = {
#define NAME(name, call) name,
        KINDS(NAME)
        NULL };
    return names[kind];
}
double nanoseconds(int kind)
{
    double least = 1e9;
    for (int round = 0; round < 15; round++) {
        int count = kind == 18 ? 20 : 2000;
        double begin = now();
        switch (kind) {
#define CASE(name, call) case __COUNTER__ - FIRST: for (int i = 0; i < count; i++) call; break;
        enum { FIRST = __COUNTER__ + 1 };
        KINDS(CASE)
        }
        double time = (now() - begin) / count;
        least = time < least ? time : least;
    }
    return least;
}
"#;

/// The extra nanoseconds that a call may take, or the share of its own time.
const PROMISED: f64 = 20.0;
const TENTH: f64 = 0.1;

/// Other work on the machine takes turns with the measurement in this time.
const PAUSE: Duration = Duration::from_millis(300);

#[test]
fn a_call_with_state_of_a_domain_takes_20_nanoseconds_or_a_tenth_more_at_most() {
    alone(PATIENCE, || {
        let shop = Workshop::new("c-library-costs");
        let path = shop.build("libcosts.so", SOURCE, &["-fno-builtin", "-lm"]);
        let domain = domains(1).remove(0);
        let library = open_in(std::slice::from_ref(&domain), &path).remove(0);
        type Measure = extern "C" fn(c_int) -> f64;
        // SAFETY: the source declares it so.
        let (own, plain): (Measure, Measure) =
            unsafe { (function(&library, "nanoseconds"), cast(in_process(&path)("nanoseconds"))) };
        // SAFETY: the source declares it so.
        let name: extern "C" fn(c_int) -> *const std::ffi::c_char =
            unsafe { function(&library, "name") };
        // SAFETY: the thread runs code of the domain while the mark is there.
        let _inside = unsafe { current::enter(domain.id()) };
        let mut wrong = Vec::new();
        for kind in (0..).take_while(|kind| !name(*kind).is_null()) {
            // Measure again if the machine was busy with other work.
            let (mut least_plain, mut least_own) = (f64::MAX, f64::MAX);
            let mut is_right = false;
            for round in 0..40 {
                if round >= 10 {
                    thread::sleep(PAUSE);
                }
                least_plain = least_plain.min(plain(kind));
                least_own = least_own.min(own(kind));
                is_right = least_own - least_plain <= PROMISED.max(TENTH * least_plain);
                if is_right {
                    break;
                }
            }
            // SAFETY: a constant of the library.
            let name = unsafe { std::ffi::CStr::from_ptr(name(kind)) }.to_str().unwrap();
            let line = format!("{name}: {least_plain:.1} ns, and {least_own:.1} ns in a domain");
            println!("{line}");
            if !is_right {
                wrong.push(line);
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}
