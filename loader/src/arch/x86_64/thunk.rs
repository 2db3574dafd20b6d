//! Thunks: a few instructions that add arguments to a call and pass it on.

/// Bytes of one thunk, a multiple of 16 so that each begins a fetch block.
pub(crate) const THUNK_SIZE: usize = 48;

/// As an argument number: `r10`, the static chain, which no argument of C uses (psABI, "Register Usage").
pub(crate) const STATIC_CHAIN: usize = 6;

/// `movabs $imm64, %reg` for the INTEGER argument registers in order, and [`STATIC_CHAIN`]: REX prefix and opcode.
const MOVE_IMMEDIATE: [[u8; 2]; 7] = [
    [0x48, 0xbf], // rdi
    [0x48, 0xbe], // rsi
    [0x48, 0xba], // rdx
    [0x48, 0xb9], // rcx
    [0x49, 0xb8], // r8
    [0x49, 0xb9], // r9
    [0x49, 0xba], // r10
];

/// `mov (%rsp), %reg` for the same registers.
const LOAD_RETURN_ADDRESS: [[u8; 4]; 6] = [
    [0x48, 0x8b, 0x3c, 0x24],
    [0x48, 0x8b, 0x34, 0x24],
    [0x48, 0x8b, 0x14, 0x24],
    [0x48, 0x8b, 0x0c, 0x24],
    [0x4c, 0x8b, 0x04, 0x24],
    [0x4c, 0x8b, 0x0c, 0x24],
];

/// Writes code that puts `context` into INTEGER argument register number `argument` (or [`STATIC_CHAIN`]), if
/// `caller` the return address into the next one, and jumps to `target`.
///
/// It is a tail jump with no frame of its own, so unwinders never see it; it clobbers `r11` only,
/// which the psABI leaves to linkage code.
///
/// # Panics
/// If the arguments leave no register.
pub(crate) fn write_thunk(
    code: &mut [u8; THUNK_SIZE],
    target: usize,
    argument: usize,
    context: usize,
    caller: bool,
) {
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        code[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&[0xf3, 0x0f, 0x1e, 0xfa]); // endbr64: reached through a pointer
    put(&MOVE_IMMEDIATE[argument]);
    put(&(context as u64).to_le_bytes());
    if caller {
        put(&LOAD_RETURN_ADDRESS[argument + 1]);
    }
    put(&[0x49, 0xbb]); // movabs $target, %r11
    put(&(target as u64).to_le_bytes());
    put(&[0x41, 0xff, 0xe3]); // jmp *%r11
    put(&[0xcc]);
}
