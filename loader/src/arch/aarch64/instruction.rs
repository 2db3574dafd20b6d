//! The few instructions that generated code consists of (Arm ARM, C6.2).

/// A general-purpose register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Register(pub u8);

/// IP0 and IP1, which linkage code between a call and its target may change (AAPCS64, 6.1.1).
pub(super) const X16: Register = Register(16);
pub(super) const X17: Register = Register(17);
/// The link register.
pub(super) const X30: Register = Register(30);

/// `bti c`: where an indirect call may arrive; no operation where that is not enforced.
pub(super) const BTI_C: u32 = 0xd503_245f;

/// `movz`, then `movk` thrice: the 64 bits of `value`.
pub(super) fn load_immediate(register: Register, value: u64) -> [u32; 4] {
    [0u32, 1, 2, 3].map(|part| {
        let opcode = if part == 0 { 0xd280_0000 } else { 0xf280_0000 };
        let bits = (value >> (16 * part)) as u32 & 0xffff;
        opcode | part << 21 | bits << 5 | u32::from(register.0)
    })
}

/// `mov to, from`.
pub(super) fn copy(to: Register, from: Register) -> u32 {
    0xaa00_03e0 | u32::from(from.0) << 16 | u32::from(to.0)
}

/// `br register`.
pub(super) fn branch(register: Register) -> u32 {
    0xd61f_0000 | u32::from(register.0) << 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_encoded_as_an_assembler_does() {
        // movz x16, #0xcdef; movk x16, #0x89ab, lsl #16; ... #0x4567, lsl #32; ... #0x123, lsl #48
        assert_eq!(
            load_immediate(X16, 0x0123_4567_89ab_cdef),
            [0xd299_bdf0, 0xf2b1_3570, 0xf2c8_acf0, 0xf2e0_2470]
        );
        assert_eq!(copy(Register(3), X30), 0xaa1e_03e3); // mov x3, x30
        assert_eq!(branch(X17), 0xd61f_0220); // br x17
    }
}
