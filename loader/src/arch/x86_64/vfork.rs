//! `vfork`, with a function that is told of the child.

/// Defines a function that replaces `vfork`, for
/// [`Interposition::with_hidden_context`](crate::replica::thunk::Interposition). In the parent it returns the result of
/// `target(child, context)`, an `extern "C"` function; `child` may be a negative error number.
///
/// The child returns first, on the parent's stack, and overwrites the stack below the caller's frame. So the return
/// address waits in a register, which the system call keeps, and of which each process has its own (glibc,
/// sysdeps/unix/sysv/linux/x86_64/vfork.S).
macro_rules! vforking {
    ($name:ident => $target:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "endbr64",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                ".cfi_register rip, rdi",
                "mov eax, {vfork}",
                "syscall",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                ".cfi_offset rip, -8",
                "test rax, rax",
                "je 2f",
                "mov rdi, rax",
                "mov rsi, r10",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "call {target}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "2: ret",
                ".cfi_endproc",
                vfork = const libc::SYS_vfork,
                target = sym $target,
            )
        }
    };
}

pub(crate) use vforking;
