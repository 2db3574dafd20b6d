//! Relocation types: psABI, table "Relocation Types".

use goblin::elf::reloc::*;

use crate::arch::Action;

/// The operation of relocation type `kind`; `None` if no shared object may hold it.
pub(crate) fn action(kind: u32) -> Option<Action> {
    Some(match kind {
        R_X86_64_NONE => Action::None,
        R_X86_64_RELATIVE | R_X86_64_RELATIVE64 => Action::Relative,
        R_X86_64_64 => Action::Absolute,
        R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT => Action::Slot,
        R_X86_64_32 => Action::Absolute32,
        R_X86_64_PC32 => Action::Relative32,
        R_X86_64_PC64 => Action::Relative64,
        R_X86_64_DTPMOD64 => Action::TlsModule,
        R_X86_64_DTPOFF64 => Action::TlsOffset,
        R_X86_64_TPOFF64 => Action::ThreadPointerOffset,
        R_X86_64_TLSDESC => Action::TlsDescriptor,
        R_X86_64_IRELATIVE => Action::IndirectRelative,
        R_X86_64_SIZE32 => Action::Size32,
        R_X86_64_SIZE64 => Action::Size64,
        R_X86_64_COPY => Action::Copy,
        _ => return None,
    })
}

/// The type's name in the psABI.
pub(crate) fn relocation_name(kind: u32) -> String {
    match goblin::elf::reloc::r_to_str(kind, goblin::elf::header::EM_X86_64) {
        "R_UNKNOWN_X86_64" => format!("type {kind}"),
        // goblin leaves the prefix out of some names.
        name => format!("R_{}", name.trim_start_matches("R_")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_those_of_the_psabi() {
        let names = [1, 8, 36, 60_000].map(super::relocation_name);
        assert_eq!(names, ["R_X86_64_64", "R_X86_64_RELATIVE", "R_X86_64_TLSDESC", "type 60000"]);
    }
}
