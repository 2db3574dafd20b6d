//! One step outwards: the registers of a frame's caller, by the rules of its unwind table.
//!
//! gimli interprets the table (DWARF 5, 6.4), with room on the stack for what it keeps.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, Encoding, EndianSlice, Evaluation, EvaluationResult,
    EvaluationStorage, Expression, Format, NativeEndian, Piece, Register, RegisterRule,
    UnwindContext, UnwindContextStorage, UnwindSection, UnwindTableRow, Value,
};

use super::End;
use super::tables::UnwindEntry;
use crate::arch::{REGISTERS, STACK_POINTER, VENDOR, without_signature};
use crate::sys::own_memory::{read, word};
use crate::visible::unwind;

type Bytes<'a> = EndianSlice<'a, NativeEndian>;

/// Room for a row of the table, and for as many as compilers nest (DW_CFA_remember_state).
struct Rows;

impl UnwindContextStorage<usize> for Rows {
    type Rules = [(Register, RegisterRule<usize>); 48];
    type Stack = [UnwindTableRow<usize, Self>; 8];
}

/// Room for the evaluation of an expression.
struct Room;

impl<'a> EvaluationStorage<Bytes<'a>> for Room {
    type Stack = [Value; 32];
    type ExpressionStack = [(Bytes<'a>, Bytes<'a>); 1];
    type Result = [Piece<Bytes<'a>>; 1];
}

/// Operations after which an expression without an end is given up.
const MOST_OPERATIONS: u32 = 1000;

/// The result of a step.
pub(super) struct Step {
    /// Where the function of the frame begins.
    pub function: usize,
    /// Whether the frame has no caller.
    pub is_outermost: bool,
    /// Whether a signal has interrupted the frame around it, which has not called it.
    pub is_interrupted: bool,
}

/// Where the function begins that holds `address`, or the part of it that has an entry of its own.
pub(super) fn function_of(address: usize) -> Option<usize> {
    let object = unwind::object_at(address)?;
    let entry = UnwindEntry::find(object.unwind_header, address)?;
    let section = self::section(&entry);
    let bases = BaseAddresses::default().set_eh_frame(entry.base as u64);
    let own = entry.own.into();
    let function = section.fde_from_offset(&bases, own, EhFrame::cie_from_offset).ok()?;
    function.contains(address as u64).then_some(function.initial_address() as usize)
}

/// Takes `registers` from the frame that executes `address` to its caller.
pub(super) fn step(registers: &mut [usize; REGISTERS], address: usize) -> Result<Step, End> {
    let object = unwind::object_at(address).ok_or(End::NotCode)?;
    let entry = UnwindEntry::find(object.unwind_header, address).ok_or(End::NoTable)?;
    let section = self::section(&entry);
    let bases = BaseAddresses::default().set_eh_frame(entry.base as u64);
    let function = section
        .fde_from_offset(&bases, entry.own.into(), EhFrame::cie_from_offset)
        .map_err(|_| End::NoTable)?;
    let mut context = UnwindContext::<usize, Rows>::new_in();
    let row = function
        .unwind_info_for_address(&section, &bases, &mut context, address as u64)
        .map_err(|_| End::NoTable)?;
    let frame = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            known(registers, *register).map(|base| base.wrapping_add_signed(*offset as isize))
        }
        CfaRule::Expression(expression) => {
            let expression = expression.get(&section).map_err(|_| End::NoTable)?;
            evaluate(expression, None, registers)
        }
    };
    let frame = frame.ok_or(End::Unreadable)?;
    let common = function.cie();
    let returns_by = common.return_address_register();
    let (mut caller, mut is_outermost) = (*registers, false);
    caller[STACK_POINTER] = frame;
    for &(register, ref rule) in row.registers() {
        let at = |offset: i64| frame.wrapping_add_signed(offset as isize);
        let of = |expression: &gimli::UnwindExpression<usize>| {
            evaluate(expression.get(&section).ok()?, Some(frame), registers)
        };
        let value = match rule {
            RegisterRule::Undefined => {
                is_outermost |= register == returns_by;
                continue;
            }
            RegisterRule::Offset(offset) => word(at(*offset)),
            RegisterRule::ValOffset(offset) => Some(at(*offset)),
            RegisterRule::Register(other) => known(registers, *other),
            RegisterRule::Expression(expression) => of(expression).and_then(word),
            RegisterRule::ValExpression(expression) => of(expression),
            RegisterRule::Constant(value) => Some(*value as usize),
            _ => continue,
        };
        // Registers of vectors are nobody's here.
        if let Some(place) = caller.get_mut(usize::from(register.0)) {
            *place = value.ok_or(End::Unreadable)?;
        }
    }
    let returns_to = known(&caller, returns_by).ok_or(End::NoTable)?;
    caller[REGISTERS - 1] = without_signature(returns_to);
    *registers = caller;
    Ok(Step {
        function: function.initial_address() as usize,
        is_outermost,
        is_interrupted: common.is_signal_trampoline(),
    })
}

/// The section that has an entry.
fn section(entry: &UnwindEntry) -> EhFrame<Bytes<'_>> {
    let mut section = EhFrame::new(entry.bytes(), NativeEndian);
    section.set_vendor(VENDOR);
    section
}

fn known(registers: &[usize; REGISTERS], register: Register) -> Option<usize> {
    registers.get(usize::from(register.0)).copied()
}

/// The value of an expression, with `first` on its stack. The tables of linkage stubs and of returns from signals have some.
fn evaluate(
    expression: Expression<Bytes<'_>>,
    first: Option<usize>,
    registers: &[usize; REGISTERS],
) -> Option<usize> {
    let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
    let mut evaluation = Evaluation::<_, Room>::new_in(expression.0, encoding);
    evaluation.set_max_iterations(MOST_OPERATIONS);
    if let Some(first) = first {
        evaluation.set_initial_value(first as u64);
    }
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresMemory { address, size, .. } => {
                let mut bytes = [0; 8];
                if !read(address as usize, bytes.get_mut(..usize::from(size))?) {
                    return None;
                }
                evaluation.resume_with_memory(Value::Generic(u64::from_le_bytes(bytes))).ok()?
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = known(registers, register)? as u64;
                evaluation.resume_with_register(Value::Generic(value)).ok()?
            }
            _ => return None,
        };
    }
    evaluation.value_result()?.to_u64(u64::MAX).ok().map(|value| value as usize)
}
