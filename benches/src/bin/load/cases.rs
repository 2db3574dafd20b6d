//! Inputs, and the outputs of plain python.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::ValueEnum;
use hyper::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};

/// The header of the binary tensor extension: how many bytes of the body are JSON.
pub const JSON_LENGTH: &str = "inference-header-content-length";

/// How tensors are in bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Style {
    /// The Open Inference Protocol with its binary tensor extension
    Binary,
    /// The Open Inference Protocol, with a tensor as base64 in an input of type BYTES
    Base64,
    /// A body is a tensor's bytes; texts are a JSON list
    Raw,
}

/// The description that `prepare.py` wrote.
#[derive(Debug, Deserialize)]
struct Described {
    count: usize,
    input_type: String,
    input_shape: Vec<u64>,
    output_type: String,
    output_shape: Vec<u64>,
}

/// A body with the length of its JSON, where that is not all of it.
pub struct Body {
    pub bytes: Bytes,
    pub json: Option<usize>,
}

/// Requests and their right answers.
pub struct Cases {
    style: Style,
    described: Described,
    pub bodies: Vec<Body>,
    outputs: Vec<Vec<u8>>,
}

impl Cases {
    pub fn read(folder: &Path, style: Style) -> Result<Self> {
        let read = |name: String| {
            let path = folder.join(name);
            fs::read(&path).with_context(|| format!("reading {}", path.display()))
        };
        let described: Described = serde_json::from_slice(&read("case.json".to_owned())?)?;
        ensure!(described.count > 0, "{} has no inputs", folder.display());
        let mut cases = Self { style, described, bodies: Vec::new(), outputs: Vec::new() };
        for case in 0..cases.described.count {
            let body = cases.body(&read(format!("{case}.in"))?)?;
            cases.bodies.push(body);
            cases.outputs.push(read(format!("{case}.out"))?);
        }
        Ok(cases)
    }

    /// How tensors are in bodies.
    pub fn style(&self) -> Style {
        self.style
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bodies.len()
    }

    fn body(&self, input: &[u8]) -> Result<Body> {
        let described = &self.described;
        Ok(match self.style {
            Style::Raw => Body { bytes: Bytes::copy_from_slice(input), json: None },
            Style::Base64 => {
                let data = STANDARD.encode(input);
                let tensor = json!({
                    "name": "IN", "datatype": "BYTES", "shape": [1], "data": [data],
                    "parameters": {"content_type": "base64"},
                });
                let text = json!({ "inputs": [tensor] }).to_string();
                Body { bytes: text.into(), json: None }
            }
            Style::Binary => {
                let data = match described.input_type.as_str() {
                    "BYTES" => texts(input)?,
                    _ => input.to_vec(),
                };
                let tensor = json!({
                    "name": "IN", "datatype": described.input_type, "shape": described.input_shape,
                    "parameters": {"binary_data_size": data.len()},
                });
                let output = json!({"name": "OUT", "parameters": {"binary_data": true}});
                let mut body = json!({"inputs": [tensor], "outputs": [output]}).to_string();
                let json = Some(body.len());
                let mut bytes = std::mem::take(&mut body).into_bytes();
                bytes.extend(data);
                Body { bytes: bytes.into(), json }
            }
        })
    }

    /// Compares an answer's body with the output of plain python. The error says what differs.
    pub fn check(&self, case: usize, headers: &HeaderMap, body: &[u8]) -> Result<()> {
        let expected = &self.outputs[case];
        match self.style {
            Style::Raw => ensure!(body == expected, "the output differs"),
            Style::Base64 => {
                let answer: Value = serde_json::from_slice(body)?;
                let data = answer.pointer("/outputs/0/data/0").and_then(Value::as_str);
                let data = STANDARD.decode(data.context("the answer has no output")?)?;
                ensure!(data == *expected, "the output differs");
            }
            Style::Binary => {
                let length =
                    headers.get(JSON_LENGTH).context("the answer has no binary tensors")?;
                let length: usize = length.to_str()?.parse()?;
                ensure!(length <= body.len(), "the answer's JSON is longer than the answer");
                let (text, data) = body.split_at(length);
                let answer: Value = serde_json::from_slice(text)?;
                let output = &answer["outputs"][0];
                let described = &self.described;
                let shape = json!(described.output_shape);
                let is_described =
                    output["datatype"] == described.output_type && output["shape"] == shape;
                ensure!(is_described, "the output is {output}");
                ensure!(data == expected, "the output differs");
            }
        }
        Ok(())
    }
}

/// Texts as elements of a tensor of type BYTES: each behind its length in four bytes, the lowest first.
fn texts(list: &[u8]) -> Result<Vec<u8>> {
    let texts: Vec<String> = serde_json::from_slice(list).context("texts are a JSON list")?;
    let mut data = Vec::new();
    for text in texts {
        data.extend((text.len() as u32).to_le_bytes());
        data.extend(text.into_bytes());
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(style: Style) -> Cases {
        let described = Described {
            count: 1,
            input_type: "UINT8".to_owned(),
            input_shape: vec![2],
            output_type: "UINT8".to_owned(),
            output_shape: vec![2],
        };
        Cases { style, described, bodies: Vec::new(), outputs: vec![vec![1, 2]] }
    }

    #[test]
    fn an_output_that_differs_in_a_bit_is_wrong_in_each_style() {
        let none = HeaderMap::new();
        assert!(cases(Style::Raw).check(0, &none, &[1, 2]).is_ok());
        assert!(cases(Style::Raw).check(0, &none, &[1, 3]).is_err());
        let answer = |data: &[u8]| {
            json!({"outputs": [{"data": [STANDARD.encode(data)]}]}).to_string().into_bytes()
        };
        assert!(cases(Style::Base64).check(0, &none, &answer(&[1, 2])).is_ok());
        assert!(cases(Style::Base64).check(0, &none, &answer(&[1, 3])).is_err());
        let binary = |shape: usize, data: &[u8]| {
            let text = json!({"outputs": [{"datatype": "UINT8", "shape": [shape]}]}).to_string();
            let headers = HeaderMap::from_iter([(
                JSON_LENGTH.parse().expect("a header"),
                text.len().to_string().parse().expect("a value"),
            )]);
            let body = [text.as_bytes(), data].concat();
            cases(Style::Binary).check(0, &headers, &body)
        };
        assert!(binary(2, &[1, 2]).is_ok());
        assert!(binary(2, &[1, 3]).is_err());
        assert!(binary(2, &[1, 2, 0]).is_err());
        assert!(binary(3, &[1, 2]).is_err());
        assert!(cases(Style::Binary).check(0, &none, &[1, 2]).is_err());
    }

    #[test]
    fn texts_become_elements_with_their_lengths() {
        let data = texts("[\"ab\", \"\", \"\u{e9}\"]".as_bytes()).expect("a list");
        assert_eq!(data, b"\x02\0\0\0ab\0\0\0\0\x02\0\0\0\xc3\xa9");
        assert!(texts(b"{}").is_err());
    }
}
