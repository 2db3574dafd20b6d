//! The report of a crash.

use super::contain::Refused;
use super::handler::Crash;
use super::interpreters::{self, Record};
use super::text::Text;
use super::{damage, signals, stacks, threads};
use hydrozoa_loader::walk::{self, CodePlace, Frame, Walk, function_at};
use hydrozoa_loader::{DomainId, current};
use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fmt::{self, Write};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Frames that a report has, as many as `faulthandler` writes of Python's.
const FRAMES: usize = 100;

/// Interpreters whose Python stacks a report has: those that one thread has entered from one another.
const INTERPRETERS: usize = 4;

/// Where a walk stops that has found no interpreter's code.
const MOST: usize = 100_000;

/// A fault this near to the stack pointer, in bytes, is that of a stack which has overflowed.
const NEAR: usize = 64 << 10;

/// A crash of an interpreter's code, as the function of [`on_crash`] gets it.
#[derive(Debug)]
#[non_exhaustive]
pub struct CrashReport<'a> {
    /// The signal's number.
    pub signal: i32,
    /// Its code, `si_code` of sigaction(2). It is 0 or less if somebody has sent the signal.
    pub code: i32,
    /// The address that the fault is about.
    pub address: Option<usize>,
    /// The interpreter's name, of that whose code is innermost on the stack; up to 64 bytes.
    pub interpreter: Option<&'a str>,
    /// Its place in its pool, from 0.
    pub index: Option<usize>,
    /// Whether the crash is contained ([`Builder::contain_crashes`](crate::Builder::contain_crashes)): the process goes on.
    pub is_contained: bool,
    /// The report. It stands on standard error unless the crash is contained.
    pub text: &'a str,
}

type Action = Box<dyn Fn(&CrashReport<'_>) + Send + Sync>;

static ACTION: AtomicPtr<Action> = AtomicPtr::new(ptr::null_mut());

/// Has `action` called with the report of a crash: of a fatal signal on a thread with code of an interpreter on its stack. The
/// report stands on standard error by then, and afterwards the process ends by the signal. The last action that was set
/// counts.
///
/// The action runs in a handler of the signal, whose thread may hold any lock: it may call what signal-safety(7) lists, and
/// must neither allocate, nor lock, nor panic, nor print by `std`. A fault in it ends the process. It has some 256 KiB of
/// stack. It is not called where the program handles the signal itself, nor for `SIGKILL` and `_exit(2)`.
pub fn on_crash(action: impl Fn(&CrashReport<'_>) + Send + Sync + 'static) {
    let action: Box<Action> = Box::new(Box::new(action));
    // The one before may run just now.
    ACTION.store(Box::into_raw(action), Ordering::Release);
}

struct Shared(UnsafeCell<Text>);

// SAFETY: one thread at a time makes a report (`handler::begin`).
unsafe impl Sync for Shared {}

static TEXT: Shared = Shared(UnsafeCell::new(Text::empty()));

/// The extent of a crash.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// The process. The crash is not contained for this reason, where it might have been.
    Process(Option<Refused>),
    /// The calls into the interpreter. The report is an error's.
    Contained,
}

/// The stack of a crash, as the walk has seen it.
struct Stack {
    /// Its frames, and how often each comes in succession.
    frames: [Option<(Frame, usize)>; FRAMES],
    /// How many of those there are.
    count: usize,
    end: Option<walk::End>,
    /// The interpreters whose code is on it, the innermost first.
    domains: [Option<DomainId>; INTERPRETERS],
}

/// Writes the report of a crash, if an interpreter's code has crashed, and calls the program's function. Returns whether it
/// has.
///
/// # Safety
///
/// The crash is the calling thread's, which is in its handler. No other thread makes a report.
pub(super) unsafe fn make(crash: &Crash, end: End) -> bool {
    // SAFETY: the caller's promise.
    let (info, text) = unsafe { (&*crash.info, &mut *TEXT.0.get()) };
    text.clear();
    // SAFETY: the caller's promise.
    let walk = unsafe { Walk::of_interrupted(crash.context) };
    let mut stack = look(walk);
    if stack.domains[0].is_none() && stack.end != Some(walk::End::Outermost) {
        // The stack is damaged, or too deep. The thread's note tells where it was.
        let is_inside = threads::has_been_inside(crash.thread);
        stack.domains[0] = is_inside.then(current::domain).flatten();
    }
    let Some(innermost) = stack.domains[0] else {
        damage::print();
        return false;
    };
    let interpreter = interpreters::find(innermost);
    // SAFETY: as above.
    let registers = unsafe { Walk::of_interrupted(crash.context) };
    let _ = head(text, info, registers.stack(), crash.thread, innermost, interpreter);
    if let End::Process(Some(refused)) = end {
        let _ = refusal(text, refused);
    }
    let _ = write_registers(text, &registers);
    let _ = native(text, &stack);
    let is_contained = matches!(end, End::Contained);
    // Others go on after a contained crash, and shall not feel it.
    let memory =
        if is_contained { stacks::ChildMemory::Shared } else { stacks::ChildMemory::Copied };
    for domain in stack.domains.into_iter().flatten() {
        if let Some(interpreter) = interpreters::find(domain) {
            let _ = python(text, interpreter, memory);
        }
    }
    if !is_contained {
        print(text.bytes());
    }
    call(text, info, interpreter, is_contained);
    true
}

/// The text of the last report.
///
/// # Safety
///
/// The calling thread has made it, and keeps others from the next.
pub(super) unsafe fn text<'a>() -> &'a str {
    // SAFETY: by contract.
    unsafe { &*TEXT.0.get() }.as_str()
}

/// Writes what there is of a report in which its thread has crashed.
pub(super) fn cut_short() {
    // SAFETY: the calling thread makes the report, further up its stack, and does not go on.
    let text = unsafe { &*TEXT.0.get() };
    print(text.bytes());
    print(b"\nhydrozoa: the report of the crash, or the program's function for it, has crashed\n");
}

fn look(mut walk: Walk) -> Stack {
    let mut stack =
        Stack { frames: [None; FRAMES], count: 0, end: None, domains: [None; INTERPRETERS] };
    for frame in walk.by_ref().take(MOST) {
        let last = stack.count.checked_sub(1).and_then(|last| stack.frames.get_mut(last)?.as_mut());
        if let Some((_, times)) = last.filter(|(last, _)| last.address == frame.address) {
            // A recursion.
            *times += 1;
            continue;
        }
        if stack.count >= FRAMES && stack.domains[0].is_some() {
            stack.count += 1;
            break;
        }
        if let Some(place) = stack.frames.get_mut(stack.count) {
            *place = Some((frame, 1));
        }
        stack.count += 1;
        let Some(domain) = CodePlace::of(frame.executes).and_then(|place| place.domain()) else {
            continue;
        };
        // Libraries that are loaded once for all belong to nobody.
        let is_new = interpreters::find(domain).is_some() && !stack.domains.contains(&Some(domain));
        if let Some(free) = stack.domains.iter_mut().find(|one| is_new && one.is_none()) {
            *free = Some(domain);
        }
    }
    stack.end = walk.end();
    stack
}

fn head(
    text: &mut Text,
    info: &libc::siginfo_t,
    stack: usize,
    thread: libc::pid_t,
    domain: DomainId,
    interpreter: Option<&Record>,
) -> fmt::Result {
    let mut name = [0; 64];
    write!(text, "hydrozoa: {} in ", signals::name(info.si_signo))?;
    match interpreter {
        Some(one) => write!(text, "{} (index {})", one.name(&mut name), one.index())?,
        None => write!(text, "an interpreter that has ended (domain {})", domain.index())?,
    }
    text.write_str(": ")?;
    match Some(info.si_signo).filter(|one| *one == libc::SIGABRT).and_then(|_| damage::take()) {
        Some(damage) => write!(text, "{damage}")?,
        None => signals::describe(info, text)?,
    }
    let distance = signals::address(info).map(|address| address.abs_diff(stack));
    if info.si_signo == libc::SIGSEGV && distance.is_some_and(|distance| distance < NEAR) {
        text.write_str(", where the stack ends: it has overflowed")?;
    }
    let mut own = [0u8; 16];
    // SAFETY: no precondition; the kernel writes up to 16 bytes, the last of them 0.
    let process = unsafe {
        libc::prctl(libc::PR_GET_NAME, own.as_mut_ptr());
        libc::getpid()
    };
    write!(text, "\nprocess {process}, thread {thread} \"")?;
    text.add(own.split(|byte| *byte == 0).next().unwrap_or_default());
    text.write_str("\"\n")
}

/// Says why the crash is not contained.
fn refusal(text: &mut Text, refused: Refused) -> fmt::Result {
    text.write_str("not contained: ")?;
    match refused {
        Refused::Elsewhere => {
            text.write_str("the thread is in no call of an interpreter that contains its crashes\n")
        }
        Refused::Sent => text.write_str("the signal was sent\n"),
        Refused::Forked => text.write_str("the process is a forked child\n"),
        Refused::Damaged => {
            text.write_str("the stack is damaged up to the call of the interpreter\n")
        }
        Refused::NotReached => {
            text.write_str("the frames do not lead to the call of the interpreter\n")
        }
        Refused::Shared(address) => {
            text.write_str("others may need what this function holds: ")?;
            describe(text, address + 1, address)
        }
    }
}

fn write_registers(text: &mut Text, walk: &Walk) -> fmt::Result {
    for (number, (name, value)) in walk.registers().enumerate() {
        let between = if number % 4 == 3 { "\n" } else { "  " };
        write!(text, "{name:>4} {value:016x}{between}")?;
    }
    text.write_str("\n\nNative stack (most recent call first):\n")
}

fn native(text: &mut Text, stack: &Stack) -> fmt::Result {
    let mut number = 0;
    for (frame, times) in stack.frames.iter().flatten() {
        write!(text, "  #{number} ")?;
        describe(text, frame.address, frame.executes)?;
        if *times > 1 {
            writeln!(text, "  ... the same {} times more", times - 1)?;
        }
        number += times;
    }
    match stack.end {
        Some(walk::End::Outermost) if stack.count <= FRAMES => {}
        Some(end) if stack.count <= FRAMES => writeln!(text, "  ... {}", end.words())?,
        _ => text.write_str("  ... there are more frames\n")?,
    }
    Ok(())
}

fn describe(text: &mut Text, address: usize, executes: usize) -> fmt::Result {
    let (mut path, mut function, mut name) = ([0; 1024], [0; 512], [0; 64]);
    let Some(place) = CodePlace::of(executes) else {
        return writeln!(text, "{address:#018x}, which is not code");
    };
    let path = place.path(&mut path);
    match function_at(path, place.offset(), &mut function) {
        Some(function) => {
            let offset = function.offset + (address - executes);
            write!(text, "{}+{offset:#x} in ", function.name)?;
        }
        None => write!(text, "{address:#018x} in ")?,
    }
    text.add(path.to_bytes());
    write!(text, " ({:#x})", place.offset() + (address - executes))?;
    if let Some(interpreter) = place.domain().and_then(interpreters::find) {
        write!(text, ", {}", interpreter.name(&mut name))?;
    }
    text.write_str("\n")
}

/// Adds the Python stacks of an interpreter's threads.
fn python(text: &mut Text, interpreter: &Record, memory: stacks::ChildMemory) -> fmt::Result {
    let mut name = [0; 64];
    writeln!(text, "\nPython stacks of {}:", interpreter.name(&mut name))?;
    let read = interpreter.stacks().ok_or(0).and_then(|write| from_child(write, text, memory));
    match read {
        Ok(0) => text.write_str("  (there are none)\n"),
        Ok(_) => Ok(()),
        Err(number) => writeln!(text, "  (they cannot be read: error {number})"),
    }
}

/// Adds what `write` writes in a child. Returns how many bytes that are, or the number of the kernel's error.
fn from_child(
    write: unsafe extern "C" fn(),
    text: &mut Text,
    memory: stacks::ChildMemory,
) -> Result<usize, c_int> {
    // SAFETY: a name and a flag; the descriptor is closed below. The buffer takes so many bytes.
    unsafe {
        let file = libc::memfd_create(c"stacks".as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 {
            return Err(*libc::__errno_location());
        }
        let outcome = stacks::read(write, file, memory).map(|()| {
            let (mut bytes, mut done) = ([0u8; 4096], 0);
            loop {
                let count = libc::pread(file, bytes.as_mut_ptr().cast(), bytes.len(), done as i64);
                if count <= 0 {
                    return done;
                }
                text.add(&bytes[..count as usize]);
                done += count as usize;
            }
        });
        libc::close(file);
        outcome
    }
}

pub(super) fn print(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the bytes are valid. The call is one of signal-safety(7).
        let count = unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(count) {
            Ok(count) if count > 0 => bytes = &bytes[count.min(bytes.len())..],
            // SAFETY: the calling thread's own.
            Err(_) if unsafe { *libc::__errno_location() } == libc::EINTR => {}
            _ => return,
        }
    }
}

fn call(text: &Text, info: &libc::siginfo_t, interpreter: Option<&Record>, is_contained: bool) {
    // SAFETY: null, or an action that is never freed.
    let Some(action) = (unsafe { ACTION.load(Ordering::Acquire).as_ref() }) else { return };
    let mut name = [0; 64];
    let report = CrashReport {
        signal: info.si_signo,
        code: info.si_code,
        address: signals::address(info),
        interpreter: interpreter.map(|one| one.name(&mut name)),
        index: interpreter.map(Record::index),
        is_contained,
        text: text.as_str(),
    };
    action(&report);
}
