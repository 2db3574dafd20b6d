//! `vfork`, with a function that is told of the child.

/// Defines a function that replaces `vfork`, for
/// [`Interposition::with_hidden_context`](crate::replica::thunk::Interposition). In the parent it returns the result of
/// `target(child, context)`, an `extern "C"` function; `child` may be a negative error number.
///
/// The child returns first, on the parent's stack. Here nothing is on it: return address and context are in registers, which
/// the system call keeps, and of which each process has its own.
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
