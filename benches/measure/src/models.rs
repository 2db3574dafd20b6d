//! The exported models with their inputs and expected outputs, in the form that `python/export.py` writes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hydrozoa::Tensor;
use serde::Deserialize;

/// One entry of `manifest.json`.
#[derive(Debug, Clone, Deserialize)]
pub struct ExportedModel {
    /// Name of the model in torchvision.
    pub name: String,
    /// The package that stock torch.package wrote.
    pub package: PathBuf,
    /// Inputs: little-endian `f32`, one after the other.
    pub inputs: PathBuf,
    /// The outputs that plain python computed for them, in the same form.
    pub expected: PathBuf,
    /// Number of inputs.
    pub count: usize,
    /// Shape of one input, the batch dimension included.
    pub input_shape: Vec<i64>,
    /// Shape of one output.
    pub output_shape: Vec<i64>,
    /// Size of all parameters in bytes.
    pub parameter_bytes: u64,
}

/// A model's inputs and expected outputs in memory.
#[derive(Debug)]
pub struct Cases {
    inputs: Vec<Tensor>,
    expected: Vec<Vec<u32>>,
}

/// Reads `manifest.json`.
///
/// # Errors
///
/// The file is missing or is not a valid manifest.
pub fn manifest(path: &Path) -> Result<Vec<ExportedModel>> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))
}

impl ExportedModel {
    /// Reads inputs and expected outputs.
    ///
    /// # Errors
    ///
    /// A file is missing or its size does not fit the shapes.
    pub fn cases(&self) -> Result<Cases> {
        let inputs = floats(&self.inputs)?;
        let expected = floats(&self.expected)?;
        let input_length: i64 = self.input_shape.iter().product();
        let output_length: i64 = self.output_shape.iter().product();
        let (input_length, output_length) =
            (usize::try_from(input_length)?, usize::try_from(output_length)?);
        ensure!(
            inputs.len() == self.count * input_length,
            "the manifest gives another size for {}",
            self.inputs.display()
        );
        ensure!(
            expected.len() == self.count * output_length,
            "the manifest gives another size for {}",
            self.expected.display()
        );
        Ok(Cases {
            inputs: inputs
                .chunks(input_length)
                .map(|input| Tensor::from_vec(input.to_vec(), &self.input_shape))
                .collect::<Result<_, _>>()?,
            expected: expected.chunks(output_length).map(bits).collect(),
        })
    }
}

impl Cases {
    /// The input of the `index`-th call. The calls use the inputs in turn.
    pub fn input(&self, index: usize) -> &Tensor {
        &self.inputs[index % self.inputs.len()]
    }

    /// Whether the output of the `index`-th call is right to the bit.
    ///
    /// # Errors
    ///
    /// The output is not a tensor of `f32` in main memory.
    pub fn is_right(&self, index: usize, output: &Tensor) -> hydrozoa::Result<bool> {
        Ok(bits(&output.to_vec::<f32>()?) == self.expected[index % self.expected.len()])
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn floats(path: &Path) -> Result<Vec<f32>> {
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let (words, rest) = bytes.as_chunks::<4>();
    ensure!(rest.is_empty(), "{} is not a sequence of f32", path.display());
    Ok(words.iter().map(|word| f32::from_le_bytes(*word)).collect())
}
