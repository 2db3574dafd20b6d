//! The emulator's own thread, hidden from a program.
//!
//! A library with initialised thread-local data that initial-exec code reaches is given to every thread of the process. The emulator's thread
//! is listed among them, and cannot be given it. No machine has such a thread, so a program that does not see it does what it would do there.

use anyhow::Result;

use super::system::System;

/// Cases of the linker that have such data.
pub(super) const CASES: [&str; 6] = [
    "close_program_tls_static",
    "tls_initial_exec_aligned",
    "tls_initial_exec_existing_thread",
    "tls_initial_exec_other",
    "tls_initial_exec_threads",
    "tls_initial_exec_value",
];

/// Compiles what hides it, and returns the begin of a line in which programs do not see it.
pub(super) fn line(system: &System) -> Result<String> {
    let source = system.write("hidden.c", include_str!("hidden.c"))?;
    let library = source.replace(".c", ".so");
    system.run(&format!("cc -shared -fPIC -O1 -o {library} {source}"))?;
    // Only emulated programs have the variable.
    Ok(format!("export QEMU_SET_ENV=LD_PRELOAD={library}; "))
}
