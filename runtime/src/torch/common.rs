//! Settings that stay one for the process. An interpreter that changes one while others live is warned, or refused in
//! strict mode ([`Builder::strict`](crate::Builder::strict)).
//!
//! libtorch_python calls these functions when Python code changes the setting. Interposition in the interpreter's
//! domain is enough: what matters is who asks.

use std::ffi::{CString, c_void};
use std::sync::Mutex;

use super::adapter::{Member, adapter, fail, lock, symbols};
use super::exported::Answer;
use super::symbols::EXPORTS;

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: each function does what the symbol of its name does, or throws.
    unsafe {
        vec![
            EXPORTS.threads_set.answered_by(threads_set, member),
            EXPORTS.interop_threads_set.answered_by(interop_threads_set, member),
            EXPORTS.debug_level_set.answered_by(debug_level_set, member),
            EXPORTS.vmap_warning_set.answered_by(vmap_warning_set, member),
            EXPORTS.fuser_reductions_set.answered_by(fuser_reductions_set, member),
            EXPORTS.fuses_on_cpu_set.answered_by(fuses_on_cpu_set, member),
            EXPORTS.fuses_on_gpu_set.answered_by(fuses_on_gpu_set, member),
            EXPORTS.fusion_strategy_set.answered_by(fusion_strategy_set, member),
            EXPORTS.script_log_set.answered_by(script_log_set, member),
        ]
    }
}

/// Declares functions of one parameter, each with Python's name for the setting.
macro_rules! settings {
    ($($function:ident($type:ty) $name:literal,)*) => {
        $(unsafe extern "C-unwind" fn $function(value: $type, member: &'static Member) {
            // A value of this process: two that are alike mean the same.
            note(member, $name, Some(i64::from(value)));
            // SAFETY: libtorch's own function and its caller's argument.
            unsafe { (symbols().$function)(value) }
        })*
    };
}

settings! {
    threads_set(i32) "torch.set_num_threads",
    interop_threads_set(i32) "torch.set_num_interop_threads",
    debug_level_set(u32) "torch.distributed.set_debug_level",
    vmap_warning_set(bool) "torch._C._debug_only_display_vmap_fallback_warnings",
    fuser_reductions_set(bool) "torch._C._jit_set_texpr_reductions_enabled",
    fuses_on_cpu_set(bool) "torch._C._jit_override_can_fuse_on_cpu",
    fuses_on_gpu_set(bool) "torch._C._jit_override_can_fuse_on_gpu",
}

/// It returns the strategy that was in force, in the caller's memory.
unsafe extern "C-unwind" fn fusion_strategy_set(
    result: *mut c_void,
    strategy: *const c_void,
    member: &'static Member,
) -> *mut c_void {
    note(member, "torch.jit.set_fusion_strategy", None);
    // SAFETY: libtorch's own function and its caller's arguments.
    unsafe { (symbols().fusion_strategy_set)(result, strategy) }
}

unsafe extern "C-unwind" fn script_log_set(levels: *const c_void, member: &'static Member) {
    note(member, "torch._C._jit_set_logging_option", None);
    // SAFETY: libtorch's own function and its caller's argument.
    unsafe { (symbols().script_log_set)(levels) }
}

/// What interpreters have set last, by Python's name of the setting.
static SET: Mutex<Vec<(&str, i64)>> = Mutex::new(Vec::new());

/// To be called before `member` changes a setting. The value that another interpreter has set already changes nothing.
fn note(member: &Member, setting: &'static str, value: Option<i64>) {
    let new = value.map(|value| (setting, value));
    if new.is_some_and(|new| lock(&SET).contains(&new)) {
        return;
    }
    // A forked child has this interpreter alone, whatever the tables say.
    if !adapter().is_alone() && adapter().is_in_its_process() {
        object(member, setting);
    }
    if let Some(new) = new {
        let mut set = lock(&SET);
        set.retain(|(name, _)| *name != setting);
        set.push(new);
    }
}

fn object(member: &Member, setting: &str) {
    let message = format!(
        "{setting} changes a setting of the whole process, which other interpreters share under torch policy \
         `shared`; set it before they start, or use policy `isolated`"
    );
    if member.is_strict() {
        fail(&format!("{message} (refused in strict mode)"));
    }
    warn(member, &message);
}

/// Gives a `RuntimeWarning` in the interpreter, whose GIL the thread has: C++ code of torch's Python bindings calls.
fn warn(member: &Member, message: &str) {
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    let python = member.libpython();
    // SAFETY: functions of the interpreter's own libpython. `PyGILState_Ensure` takes the GIL if the thread does not
    // have it; the category is the object that CPython's variable points to.
    unsafe {
        let state = (python.ensure)();
        let raised = (python.warn)(*python.runtime_warning, text.as_ptr(), 1) != 0;
        if raised {
            (python.clear_error)();
        }
        (python.release)(state);
        // A filter has turned the warning into an error. C++ takes no exception of Python's here.
        if raised {
            fail(message);
        }
    }
}
