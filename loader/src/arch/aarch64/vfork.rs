//! `vfork`, with a function that is told of the child.

/// Defines a function that stands for `vfork`, for
/// [`Interposition::with_hidden_context`](crate::replica::thunk::Interposition). In the parent it returns what
/// `target(child, context)` returns, an `extern "C"` function; `child` may be the negative number of an error.
///
/// The child returns first, on the parent's stack. Here nothing is on it: return address and context are in registers, which
/// the system call keeps, and which each of the two processes has for itself.
macro_rules! vforking {
    ($name:ident => $target:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "bti c",
                "mov x0, #{flags}",
                "mov x1, xzr",
                "mov x8, #{clone}",
                "svc #0",
                "cbz x0, 2f",
                "mov x1, x17",
                "b {target}",
                "2: ret",
                ".cfi_endproc",
                flags = const libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
                clone = const libc::SYS_clone,
                target = sym $target,
            )
        }
    };
}

pub(crate) use vforking;
