//! Walks from signals' handlers, beside what libgcc's unwinder sees.

use std::ffi::{CString, c_int, c_void};
use std::{mem, ptr};

use super::{Boundary, CodePlace, Discardable, End, Frame, Kept, Walk, function_at};
use crate::id::DomainId;
use crate::sys::frames;
use crate::{LeafLock, Loader, OpenFlags};
use hydrozoa_testkit::libraries::Workshop;

type Seen = (Vec<Frame>, Option<End>, Vec<usize>);

static SEEN: LeafLock<Seen> = LeafLock::new((Vec::new(), None, Vec::new()));

unsafe extern "C" fn handler(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's own.
    let mut walk = unsafe { Walk::of_interrupted(context) };
    let walked = walk.by_ref().collect();
    let mut unwound = Vec::new();
    frames::walk(&mut |frame| {
        unwound.push(frame.address);
        // libgcc's last one is not a frame.
        frame.address != 0
    });
    SEEN.with(|seen| *seen = (walked, walk.end(), unwound));
}

#[inline(never)]
fn raise_here() {
    // SAFETY: the handler returns.
    unsafe { libc::raise(libc::SIGUSR2) };
    std::hint::black_box(());
}

#[test]
fn a_walk_sees_the_frames_that_an_unwinder_sees() {
    let _loader = crate::Loader::builder().build().unwrap();
    // SAFETY: zero is a value of every field.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (handler as *const () as usize, libc::SA_SIGINFO);
        libc::sigaction(libc::SIGUSR2, &action, ptr::null_mut());
    }
    std::thread::spawn(raise_here).join().unwrap();
    let (walked, end, mut unwound) = SEEN.with(mem::take);
    assert_eq!(end, Some(End::Outermost));
    unwound.retain(|address| *address != 0);
    let walked: Vec<usize> = walked.iter().map(|frame| frame.address).collect();
    assert!(walked.len() > 4, "{walked:x?}");
    assert!(unwound.ends_with(&walked), "{walked:x?}\n{unwound:x?}");
    let own = unwound.iter().any(|address| name_of(*address).contains("raise_here"));
    assert!(own, "the function is named");
    let (libc, _) = walked.split_first().unwrap();
    let mut path = [0; 256];
    let place = CodePlace::of(*libc).unwrap();
    assert!(place.domain().is_none() && !place.is_in_the_program());
    assert!(place.path(&mut path).to_string_lossy().contains("libc.so"));
}

fn name_of(address: usize) -> String {
    let (mut path, mut name) = ([0; 512], [0; 512]);
    let Some(place) = CodePlace::of(address - 1) else { return String::new() };
    let path = CString::from(place.path(&mut path));
    let function = function_at(&path, place.offset(), &mut name);
    function.map_or_else(String::new, |function| function.name.to_owned())
}

type Judged = (Option<(Discardable, DomainId)>, Vec<Result<(), Kept>>);

/// The handler judges by the first, and adds to the second.
static JUDGED: LeafLock<Judged> = LeafLock::new((None, Vec::new()));

unsafe extern "C" fn judge(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    JUDGED.with(|(discardable, judged)| {
        let Some((discardable, domain)) = discardable else { return };
        // SAFETY: the kernel's own.
        let walk = || unsafe { Walk::of_interrupted(context) };
        let from_here = walk().find(|frame| name_of(frame.address).contains("calls_from_here"));
        let Some(frame) = from_here else { return };
        let boundary = Boundary { function: frame.function, stack: frame.stack };
        judged.push(discardable.judge(&mut walk(), *domain, &boundary));
        let beyond = Boundary { stack: boundary.stack - 8, ..boundary };
        judged.push(discardable.judge(&mut walk(), *domain, &beyond));
    });
}

#[inline(never)]
fn calls_from_here(function: extern "C" fn()) {
    function();
    std::hint::black_box(());
}

const RAISING: &str = "
    #define _GNU_SOURCE
    #include <link.h>
    #include <search.h>
    #include <signal.h>
    #include <stdlib.h>
    static void raises(void) { raise(SIGUSR1); __asm__ volatile(\"\"); }
    static int compares(const void *a, const void *b) { raises(); return 0; }
    static int iterates(struct dl_phdr_info *info, size_t size, void *data) { raises(); return 1; }
    void plain(void) { raises(); __asm__ volatile(\"\"); }
    void sorts(void) { int two[2] = { 1, 0 }; qsort(two, 2, sizeof *two, compares); __asm__ volatile(\"\"); }
    void looks(void) { int two[2] = { 1, 0 }; size_t n = 2; lfind(two, two, &n, sizeof *two, compares); __asm__ volatile(\"\"); }
    void finds(void) { dl_iterate_phdr(iterates, 0); __asm__ volatile(\"\"); }
";

#[test]
fn frames_pass_by_the_shared_function_that_the_domain_s_code_has_called() {
    let shop = Workshop::new("discard");
    let flags = ["-fno-optimize-sibling-calls"];
    let path = shop.build("libraising.so", RAISING, &flags);
    let domain = Loader::builder().build().unwrap().domain("raising").build().unwrap();
    // SAFETY: the library was made for this.
    let library = unsafe { domain.open(&path, OpenFlags::NOW) }.unwrap();
    JUDGED.with(|(discardable, _)| {
        *discardable = Some((Discardable::new(&crate::calling_back()), domain.id()));
    });
    // SAFETY: zero is a value of every field.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (judge as *const () as usize, libc::SA_SIGINFO);
        libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut());
    }
    let judgement = |name: &str| {
        let function = library.symbol(name).unwrap();
        // SAFETY: the library declares its functions so.
        calls_from_here(unsafe { mem::transmute::<*const c_void, extern "C" fn()>(function) });
        let all = JUDGED.with(|(_, judged)| mem::take(judged));
        let [judgement, beyond] = all[..] else { panic!("{name}: {all:x?}") };
        assert!(beyond.is_err(), "{name}: {beyond:x?}");
        judgement
    };
    assert_eq!(judgement("plain"), Ok(()));
    assert_eq!(judgement("sorts"), Ok(()));
    // A linear search takes no lock either, but it is not known to.
    let looks = judgement("looks");
    let Err(Kept::Shared(address)) = looks else { panic!("{looks:x?}") };
    assert!(name_of(address).contains("lfind"), "{}", name_of(address));
    assert!(matches!(judgement("finds"), Err(Kept::Shared(_))));
}
