//! The profiler: kineto has one session per process, and two at once corrupt it.
//!
//! One interpreter profiles at a time. An attempt of another one is a `RuntimeError`. Needed in every
//! release.

use std::ffi::c_void;
use std::sync::Mutex;

use super::adapter::{Member, fail, lock, symbols};
use super::exported::Answer;
use super::symbols::EXPORTS;

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: each function does for its interpreter what the symbol that its documentation names
    // does for the process.
    unsafe {
        vec![
            EXPORTS.profiler_prepare.answered_by(prepare, member),
            EXPORTS.profiler_enable.answered_by(enable, member),
            EXPORTS.profiler_disable.answered_by(disable, member),
        ]
    }
}

/// The interpreter that profiles (serial and name).
static OWNER: Mutex<Option<(u64, String)>> = Mutex::new(None);

fn acquire(member: &Member) {
    let mut owner = lock(&OWNER);
    if let Some((serial, name)) = &*owner
        && *serial != member.serial()
    {
        let message = format!(
            "torch.profiler is in use by {name}: a process has one session, so under torch policy `shared` \
             one interpreter profiles at a time (under policy `isolated` each has its own profiler)"
        );
        drop(owner);
        fail(&message);
    }
    *owner = Some((member.serial(), member.name()));
}

fn release(member: &Member) {
    let mut owner = lock(&OWNER);
    if owner.as_ref().is_some_and(|(serial, _)| *serial == member.serial()) {
        *owner = None;
    }
}

/// Gives the profiler back if a call throws.
struct Unless(&'static Member);

impl Drop for Unless {
    fn drop(&mut self) {
        release(self.0);
    }
}

/// `prepareProfiler(const ProfilerConfig&, const std::set<ActivityType>&)`.
unsafe extern "C-unwind" fn prepare(
    config: *const c_void,
    activities: *const c_void,
    member: &'static Member,
) {
    acquire(member);
    let undo = Unless(member);
    // SAFETY: the caller's arguments.
    unsafe { (symbols().profiler_prepare)(config, activities) };
    std::mem::forget(undo);
}

/// `enableProfiler(const ProfilerConfig&, const std::set<ActivityType>&, const std::unordered_set<RecordScope>&)`.
unsafe extern "C-unwind" fn enable(
    config: *const c_void,
    activities: *const c_void,
    scopes: *const c_void,
    member: &'static Member,
) {
    acquire(member);
    let undo = Unless(member);
    // SAFETY: the caller's arguments.
    unsafe { (symbols().profiler_enable)(config, activities, scopes) };
    std::mem::forget(undo);
}

/// `disableProfiler()`, which returns a `std::unique_ptr` in memory.
unsafe extern "C-unwind" fn disable(result: *mut c_void, member: &'static Member) -> *mut c_void {
    let _done = Unless(member);
    // SAFETY: the caller's room for the result.
    unsafe { (symbols().profiler_disable)(result) }
}

/// Gives the profiler back for an interpreter that is gone.
pub(super) fn forget(member: &Member) {
    release(member);
}
