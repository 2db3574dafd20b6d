//! Requests and responses.

mod datatype;
mod failure;

pub use datatype::DataType;
pub use failure::{Code, Failure};

use bytes::{Bytes, BytesMut};

/// A parameter of a request or response.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Parameter {
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Double(f64),
    /// A text.
    Text(String),
}

/// Parameters, in their order.
pub type Parameters = Vec<(String, Parameter)>;

/// Which sequence a request belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CorrelationId {
    /// A number; 0 for none.
    Number(u64),
    /// A text.
    Text(String),
}

impl Default for CorrelationId {
    fn default() -> Self {
        CorrelationId::Number(0)
    }
}

/// An input.
#[derive(Debug)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents, the batch's included.
    pub shape: Vec<i64>,
    /// The elements, row by row, little endian. The model gets this memory itself, and may write it.
    pub data: BytesMut,
}

/// A request to a model.
#[derive(Debug, Default)]
pub struct Request {
    /// The client's name for it.
    pub id: String,
    /// Its sequence.
    pub correlation_id: CorrelationId,
    /// Start 1, end 2 of a sequence.
    pub flags: u32,
    /// The level of its priority; 0 for the model's default.
    pub priority: u64,
    /// How long it may wait in the queue, in microseconds; 0 for the model's default.
    pub timeout: u64,
    /// Further parameters of the client.
    pub parameters: Parameters,
    /// The outputs that the client wants; empty for all.
    pub outputs: Vec<String>,
    /// The inputs.
    pub inputs: Vec<Input>,
}

/// An output.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents, the batch's included.
    pub shape: Vec<i64>,
    /// The elements, row by row, little endian. It may be memory of the model's interpreter, which lives as long.
    pub data: Bytes,
}

/// A response.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The outputs.
    pub outputs: Vec<Output>,
    /// Further parameters of the model.
    pub parameters: Parameters,
}

/// An event in the life of a request.
#[derive(Clone, Debug)]
pub struct Event {
    /// A response or an error. `None` if a decoupled model only says that there is no more.
    pub response: Option<Result<Response, Failure>>,
    /// Whether it is the last.
    pub is_final: bool,
}

/// Texts or byte strings as the bytes of a [`DataType::Bytes`] tensor.
pub fn encode_bytes<'a>(elements: impl IntoIterator<Item = &'a [u8]>) -> BytesMut {
    let mut data = BytesMut::new();
    for element in elements {
        data.extend_from_slice(&(element.len() as u32).to_le_bytes());
        data.extend_from_slice(element);
    }
    data
}

/// The elements of a [`DataType::Bytes`] tensor.
///
/// # Errors
///
/// A text that says where a length does not fit.
pub fn decode_bytes(mut data: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut elements = Vec::new();
    while let Some((length, rest)) = data.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        let element = rest.get(..length).ok_or_else(|| {
            format!(
                "element {} says that it has {length} bytes, and {} are left",
                elements.len(),
                rest.len()
            )
        })?;
        elements.push(element);
        data = &rest[length..];
    }
    if data.is_empty() {
        Ok(elements)
    } else {
        Err(format!(
            "{} bytes are left after element {}, too few for a length",
            data.len(),
            elements.len()
        ))
    }
}

/// An input over memory that nobody writes. The model gets a read-only array over it, and the memory is kept for as long as the
/// model keeps the array. Its start is a multiple of the element's size.
#[derive(Debug)]
pub struct Lent {
    /// Its name.
    pub name: String,
    /// Type of the elements. BF16 cannot be lent.
    pub data_type: DataType,
    /// Extents, the batch's included.
    pub shape: Vec<i64>,
    /// The elements, row by row, little endian.
    pub data: Bytes,
}

#[cfg(test)]
mod tests {
    use super::{decode_bytes, encode_bytes};

    #[test]
    fn texts_are_encoded_and_decoded() {
        let elements: [&[u8]; 3] = [b"a", b"", "\u{20ac}".as_bytes()];
        let data = encode_bytes(elements);
        assert_eq!(&data[..9], b"\x01\0\0\0a\0\0\0\0");
        assert_eq!(decode_bytes(&data).unwrap(), elements);
        assert!(
            decode_bytes(&data[..data.len() - 1]).unwrap_err().contains("3 bytes, and 2 are left")
        );
        assert!(decode_bytes(b"\0\0\0").unwrap_err().contains("3 bytes are left"));
    }
}
