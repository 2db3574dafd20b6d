//! Relocation types: ELF for the Arm 64-bit Architecture, "Dynamic relocations".

use goblin::elf::reloc::*;

use crate::arch::Action;

/// R_AARCH64_NULL: another number of R_AARCH64_NONE, which old tools wrote.
const R_AARCH64_NULL: u32 = 256;

/// The action of relocation type `kind`; `None` if no shared object may hold it.
pub(crate) fn action(kind: u32) -> Option<Action> {
    Some(match kind {
        R_AARCH64_NONE | R_AARCH64_NULL => Action::None,
        R_AARCH64_RELATIVE => Action::Relative,
        R_AARCH64_ABS64 => Action::Absolute,
        R_AARCH64_GLOB_DAT | R_AARCH64_JUMP_SLOT => Action::Slot,
        R_AARCH64_ABS32 => Action::Absolute32,
        R_AARCH64_PREL32 => Action::Relative32,
        R_AARCH64_PREL64 => Action::Relative64,
        R_AARCH64_TLS_DTPMOD => Action::TlsModule,
        R_AARCH64_TLS_DTPREL => Action::TlsOffset,
        R_AARCH64_TLS_TPREL => Action::ThreadPointerOffset,
        R_AARCH64_TLSDESC => Action::TlsDescriptor,
        R_AARCH64_IRELATIVE => Action::IndirectRelative,
        R_AARCH64_COPY => Action::Copy,
        _ => return None,
    })
}

/// The type's name in the specification.
pub(crate) fn relocation_name(kind: u32) -> String {
    match goblin::elf::reloc::r_to_str(kind, goblin::elf::header::EM_AARCH64) {
        "R_UNKNOWN_AARCH64" => format!("type {kind}"),
        // goblin leaves the prefix out of some names.
        name => format!("R_{}", name.trim_start_matches("R_")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::relocations::Rela;

    /// A record as it lies in a file.
    fn record(kind: u32) -> Vec<u8> {
        [0x1000u64, u64::from(kind), 0].iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn the_types_of_shared_objects_are_known_by_their_numbers() {
        // Numbers from the specification's table, not from the constants above.
        let expected = [
            (0, Action::None),
            (257, Action::Absolute),
            (258, Action::Absolute32),
            (260, Action::Relative64),
            (261, Action::Relative32),
            (1024, Action::Copy),
            (1025, Action::Slot),
            (1026, Action::Slot),
            (1027, Action::Relative),
            (1028, Action::TlsModule),
            (1029, Action::TlsOffset),
            (1030, Action::ThreadPointerOffset),
            (1031, Action::TlsDescriptor),
            (1032, Action::IndirectRelative),
        ];
        for (kind, action) in expected {
            let table = record(kind);
            let rela = Rela::all(&table).next().unwrap();
            assert_eq!(super::action(rela.kind), Some(action), "{}", relocation_name(kind));
        }
        assert_eq!(super::action(283), None, "R_AARCH64_CALL26 belongs in object files");
        assert_eq!(relocation_name(1027), "R_AARCH64_RELATIVE");
        assert_eq!(relocation_name(60_000), "type 60000");
    }
}
