//! The title of the process, as `setproctitle` (PyPI, 1.3.8) sets it in a command.
//!
//! It looks for the arguments of the python command in front of the environment's strings, where execve(2) puts them, moves the
//! environment away and writes its titles there (its src/spt_setup.c and spt_status.c). A command does not find its arguments
//! there: they are the application's. Several commands would write titles, and move the environment, in one place. So each
//! command's library gets a place with the command's arguments and room behind them. The library also passes each title to
//! prctl(2), for the thread's name. That call writes it over the application's arguments for other processes: the last counts.
//!
//! In a pool's interpreter the library would find the application's arguments, and leave the application an environment in the
//! interpreter's memory. So there it finds an empty environment.

use crate::{Answer, Interpreter};
use hydrozoa_loader::{Interposition, LeafLock};
use std::ffi::{CStr, OsString, c_char, c_int, c_ulong, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use std::{env, fs, ptr};

/// The bytes that a title may take beyond the arguments. Elsewhere it may take as many as the environment's strings.
const ROOM: usize = 4096;

/// A function with the arguments of prctl(2).
pub type Prctl = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;

/// The answers for the library built for the interpreter's version of Python.
pub(crate) fn answers(interpreter: &Interpreter<'_>) -> Vec<Answer> {
    let (minor, machine) = (interpreter.minor, env::consts::ARCH);
    let of_library = |(symbol, interposition)| {
        let library = format!("_setproctitle.cpython-3{minor}-{machine}-linux-gnu.so");
        Answer { library: Some(library), symbol, interposition }
    };
    match interpreter.command {
        Some(words) => place_of_command(words, interpreter.prctl).map(of_library).into(),
        None => [nowhere()].map(of_library).into(),
    }
}

/// An environment without strings: the library looks no further.
fn nowhere() -> (&'static str, Interposition) {
    static STRINGS: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
    static ENVIRON: AtomicPtr<*mut c_char> = AtomicPtr::new(STRINGS.as_ptr());
    // SAFETY: a variable of the type of `environ`, which the library reads only.
    ("environ", unsafe { Interposition::function(ENVIRON.as_ptr().cast()) })
}

/// The place where a command's library writes titles, and the function that its prctl(2) calls go on to.
struct TitleSpace {
    titles: *const u8,
    prctl: Prctl,
}

/// A place with the words of a command. It lives as long as the process.
fn place_of_command(words: &[OsString], prctl: Prctl) -> [(&'static str, Interposition); 2] {
    let words = words.iter().map(|word| word.as_bytes());
    let mut place: Vec<u8> = words.flat_map(|word| [word, b"\0"].concat()).collect();
    let end = place.len();
    place.resize(end + ROOM, b' ');
    place.push(0);
    let titles: *mut u8 = place.leak().as_mut_ptr();
    let place: *const TitleSpace = Box::leak(Box::new(TitleSpace { titles, prctl }));
    let strings = Box::leak(Box::new([titles.wrapping_add(end), ptr::null_mut()]));
    let environ: *mut *mut *mut u8 = Box::leak(Box::new(strings.as_mut_ptr()));
    // SAFETY: a variable of the type of `environ`, which is never freed. The function takes the arguments of prctl(2), as the one
    // that it calls does, and the address of the place.
    unsafe {
        [
            ("environ", Interposition::function(environ.cast())),
            (
                "prctl",
                Interposition::with_context(answer as *const c_void, 5, place.expose_provenance()),
            ),
        ]
    }
}

/// `prctl`. The library also passes it a thread's name, which lies elsewhere and is not a title.
///
/// # Safety
///
/// As prctl(2).
unsafe extern "C" fn answer(
    option: c_int,
    first: c_ulong,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    place: usize,
) -> c_int {
    // SAFETY: the context that it was interposed with, which is never freed.
    let place: &TitleSpace = unsafe { &*ptr::with_exposed_provenance(place) };
    if option == libc::PR_SET_NAME && first as usize == place.titles.addr() {
        // SAFETY: the library has just written its title there, with a NUL.
        show(unsafe { CStr::from_ptr(place.titles.cast::<c_char>()) });
    }
    // SAFETY: the caller's call.
    unsafe { (place.prctl)(option, first, second, third, fourth) }
}

/// Writes a title over the process's arguments, as much of it as fits.
fn show(title: &CStr) {
    static ARGUMENTS: OnceLock<Option<&[AtomicU8]>> = OnceLock::new();
    static TURN: LeafLock<()> = LeafLock::new(());
    let Some((end, place)) = ARGUMENTS.get_or_init(arguments).and_then(<[_]>::split_last) else {
        return;
    };
    let title = title.to_bytes().iter().copied().chain(std::iter::repeat(0));
    TURN.with(|()| {
        place.iter().zip(title).for_each(|(place, byte)| place.store(byte, Ordering::Relaxed));
        // Otherwise the kernel takes the title to continue in the environment (Linux, fs/proc/base.c, `get_mm_cmdline`).
        end.store(0, Ordering::Relaxed);
    });
}

/// The process's arguments (proc_pid_stat(5), `arg_start` and `arg_end`).
fn arguments() -> Option<&'static [AtomicU8]> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(48 - 3);
    let [start, end] = [fields.next()?, fields.next()?].map(|field| field.parse::<usize>().ok());
    let (start, end) = (start?, end?);
    let length = end.checked_sub(start).filter(|_| start != 0)?;
    // SAFETY: the kernel has put the arguments there, on the stack of the process's first thread. Programs may write there, and
    // some do so for this very purpose.
    Some(unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance(start), length) })
}
