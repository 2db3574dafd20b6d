//! One contender of `compare scaling`: a TorchScript module that threads call from Rust, without Python.
//!
//!     scripted MODULE EXPECTED
//!
//! `forward` of the module takes nothing. EXPECTED has the bytes of the tensors of its result, in their order.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use hydrozoa_measure::orders;
use tch::{CModule, IValue, Kind, Tensor};

fn main() -> Result<()> {
    let [module, expected] = std::env::args_os()
        .skip(1)
        .map(PathBuf::from)
        .collect::<Vec<_>>()
        .try_into()
        .ok()
        .context("two arguments: the module and the bytes of its result")?;
    tch::set_num_threads(1);
    let expected =
        std::fs::read(&expected).with_context(|| format!("reading {}", expected.display()))?;
    let module = CModule::load(&module).with_context(|| format!("loading {}", module.display()))?;
    // The first calls optimize the module for its inputs.
    for _ in 0..3 {
        ensure!(is_right(&module, &expected)?, "the result differs from plain python's");
    }
    orders::answer_calls(|_, _| Ok(|_| is_right(&module, &expected)))
}

/// Calls the module.
fn is_right(module: &CModule, expected: &[u8]) -> Result<bool> {
    let result = tch::no_grad(|| module.forward_is::<IValue>(&[]))?;
    let mut bytes = Vec::with_capacity(expected.len());
    add(&mut bytes, &result)?;
    Ok(bytes == expected)
}

/// Adds the bytes of a value's tensors.
fn add(bytes: &mut Vec<u8>, value: &IValue) -> Result<()> {
    match value {
        IValue::Tensor(tensor) => copy(bytes, tensor)?,
        IValue::TensorList(tensors) => tensors.iter().try_for_each(|one| copy(bytes, one))?,
        IValue::Tuple(values) | IValue::GenericList(values) => {
            values.iter().try_for_each(|one| add(bytes, one))?;
        }
        IValue::GenericDict(pairs) => pairs.iter().try_for_each(|(_, one)| add(bytes, one))?,
        other => bail!("the result has {other:?}, which is not a tensor"),
    }
    Ok(())
}

fn copy(bytes: &mut Vec<u8>, tensor: &Tensor) -> Result<()> {
    let flat = tensor.contiguous().flatten(0, -1).view_dtype(Kind::Uint8);
    let (start, count) = (bytes.len(), flat.numel());
    bytes.resize(start + count, 0);
    flat.f_copy_data_u8(&mut bytes[start..], count).context("copying a result")
}
