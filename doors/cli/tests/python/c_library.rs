//! Each copy has its own of the state that the C library keeps for a program.

use crate::beside::{Seen, copy, plain, pythons};

/// Asks the C library through Python's modules and ctypes for so many seconds, and prints what it got at first, and what was
/// ever something else.
const PROGRAM: &str = r#"
import ctypes, grp, locale, os, socket, sys, time
me = int(os.environ.get('HYDROZOA_COPY', '1'))
libc = ctypes.PyDLL(None)
libc.gmtime.restype = libc.localtime.restype = ctypes.POINTER(ctypes.c_int)
libc.strtok.restype = libc.ctime.restype = ctypes.c_char_p
def groups():
    return len(grp.getgrall()), grp.getgrall()[-1].gr_name
def services():
    return [socket.getservbyname(name) for name in (['ssh', 'smtp'], ['http', 'https'], ['domain', 'ftp'])[me - 1]]
def protocols():
    return socket.getprotobyname(['tcp', 'udp', 'icmp'][me - 1])
def domains():
    locale.textdomain(f'program{me}')
    locale.bindtextdomain('shared', f'/folder{me}')
    time.sleep(0)
    return locale.textdomain(None), locale.bindtextdomain('shared', None)
def numbers():
    libc.srand(me)
    first = libc.rand()
    time.sleep(0)
    return first, libc.rand(), libc.rand()
def times():
    seconds = ctypes.c_long(me * 100_000_000)
    parts = libc.gmtime(ctypes.byref(seconds))
    time.sleep(0)
    return parts[0], parts[5], libc.ctime(ctypes.byref(seconds))
def tokens():
    text = ctypes.create_string_buffer(b'a%d b%d c%d' % (me, me, me))
    token, found = libc.strtok(text, b' '), []
    while token:
        found.append(token)
        time.sleep(0)
        token = libc.strtok(None, b' ')
    return found
works = [groups, services, protocols, domains, numbers, times, tokens]
try:
    import spwd
    works.append(lambda: len(spwd.getspall()))
except ImportError:
    pass
first = [work() for work in works]
end = time.time() + float(sys.argv[1])
wrong = set()
while time.time() < end:
    for work, expected in zip(works, first):
        got = work()
        if got != expected:
            wrong.add((getattr(work, '__name__', '?'), str(got)[:60]))
expected = numbers()
print(me, [first[3], first[5][0], first[6]], expected, sorted(wrong)[:5])
"#;

#[test]
fn three_copies_have_the_c_library_s_state_each_for_itself() {
    for (minor, python) in pythons() {
        let alone = [1, 2, 3].map(|me: u32| {
            let mut command = plain(python);
            command.args(["-W", "ignore", "-c", PROGRAM, "0"]).env("HYDROZOA_COPY", me.to_string());
            let seen: Seen = command.output().unwrap().into();
            assert!(seen.output.ends_with(" []\n"), "{}{}", seen.output, seen.errors);
            seen.output
        });
        let mut command = copy(python, &["--copies", "3", "--in", "all"]);
        let seen: Seen =
            command.args(["-W", "ignore", "-c", PROGRAM, "1"]).output().unwrap().into();
        let mut lines: Vec<String> = seen.output.lines().map(|line| format!("{line}\n")).collect();
        lines.sort();
        assert_eq!(lines, alone, "3.{minor}: {}", seen.errors);
    }
}

/// Prints the settings that depend on the locale at python's start.
const MODE: &str = "import locale, os, sys\n\
    print(sys.flags.utf8_mode, locale.getpreferredencoding(), sys.stdout.encoding, sys.stdout.errors, \
        os.environ.get('LC_CTYPE'), locale.setlocale(locale.LC_CTYPE), os.popen('echo $LC_CTYPE').read(), end='')";

#[test]
fn each_copy_starts_in_the_mode_and_the_locale_of_plain_python() {
    let environments: [&[(&str, &str)]; 6] = [
        &[],
        &[("LANG", "C")],
        &[("LC_CTYPE", "POSIX")],
        &[("LC_ALL", "C")],
        &[("PYTHONUTF8", "0")],
        &[("PYTHONCOERCECLOCALE", "warn")],
    ];
    for (minor, python) in pythons() {
        for environment in environments {
            let see = |mut command: std::process::Command| -> Seen {
                for name in ["LANG", "LC_ALL", "LC_CTYPE"] {
                    command.env_remove(name);
                }
                command.envs(environment.iter().copied());
                command.args(["-c", MODE]).output().unwrap().into()
            };
            let plain = see(plain(python));
            let copies = see(copy(python, &["--copies", "3", "--in", "all"]));
            let thrice = (plain.output.repeat(3), plain.errors.repeat(3));
            assert_eq!((copies.output, copies.errors), thrice, "3.{minor}, {environment:?}");
        }
    }
}
