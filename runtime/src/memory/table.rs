//! The memory of an interpreter in words.

use super::{InterpreterMemory, Library};
use crate::Settlings;
use std::fmt;

/// So many libraries are listed.
const LISTED: usize = 10;

/// A table: private memory by owners, what is beside it, and the libraries with the most private memory.
impl fmt::Display for InterpreterMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("private memory (anonymous pages that no other process maps)", self.private()),
            ("  libraries: variables and relocated words", self.replicas()),
            ("  heap of Python's raw allocator", self.raw_heap),
            ("  heap of its libraries (malloc, C++)", self.native_heap),
            ("  arenas of Python's objects", self.arenas),
            ("  what libraries map", self.mapped),
            ("  stacks of its threads", self.stacks),
            ("page tables (4 KiB for each 2 MiB in use)", self.page_tables),
            ("pages of files that are in memory", self.of_files),
            ("Pss (each page divided by the number of its users)", self.proportional),
            ("thread-local data, from malloc", self.thread_local),
            ("private memory of the process", self.process.private.max(0) as u64),
            ("  at other interpreters' addresses", self.others),
            ("  tensors, shared libraries, and the program", self.unattributed()),
        ];
        for (words, bytes) in rows {
            writeln!(formatter, "{:>9.2} MiB  {words}", mib(bytes))?;
        }
        writeln!(formatter, "{:>9}      mappings", self.mappings)?;
        let Settlings { times, written, refused } = &self.settlings;
        writeln!(
            formatter,
            "{times:>9}      times settled: {:.2} MiB written to files",
            mib(*written)
        )?;
        if let Some(reason) = refused {
            writeln!(formatter, "               not settled the last time: {reason}")?;
        }
        writeln!(formatter, "libraries with the most private memory:")?;
        for Library { path, private, .. } in self.libraries.iter().take(LISTED) {
            writeln!(formatter, "{:>9.2} MiB  {}", mib(*private), path.display())?;
        }
        Ok(())
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
