//! Inputs that the server adds to the requests of sequences, and requests that stand in for absent ones.

use crate::config::{Control, FalseTrue, Signal};
use crate::request::{CorrelationId, DataType, Failure, Input, Request, encode_bytes};
use bytes::BytesMut;

/// The first request of a sequence, in a request's flags.
pub(super) const START: u32 = 1;
/// The last request of a sequence.
pub(super) const END: u32 = 2;

/// A model's controls.
pub(super) struct Controls {
    controls: Vec<Control>,
    shape: Vec<i64>,
}

impl Controls {
    pub(super) fn new(controls: Vec<Control>, max_batch_size: usize) -> Self {
        let shape = if max_batch_size > 0 { vec![1, 1] } else { vec![1] };
        Self { controls, shape }
    }

    /// Refuses a correlation id that the model's control cannot hold.
    pub(super) fn check(&self, id: &CorrelationId, model: &str) -> Result<(), Failure> {
        for control in &self.controls {
            let Signal::CorrelationId(data_type) = control.signal else { continue };
            let given = match id {
                CorrelationId::Number(_) => DataType::Uint64,
                CorrelationId::Text(_) => DataType::Bytes,
            };
            if (given == DataType::Bytes) != (data_type == DataType::Bytes) {
                return Err(Failure::invalid(format!(
                    "sequence batching control '{}' data-type is '{given}', but model '{model}' expects '{data_type}'",
                    control.name
                )));
            }
            if let CorrelationId::Number(number) = id
                && *number > greatest(data_type)
            {
                return Err(Failure::invalid(format!(
                    "correlation ID {number} is too great for sequence batching control '{}' of model '{model}', whose \
                     data-type is '{data_type}'",
                    control.name
                )));
            }
        }
        Ok(())
    }

    /// Adds the controls to a request.
    pub(super) fn add(&self, request: &mut Request, is_ready: bool) {
        for control in &self.controls {
            let of =
                |values: FalseTrue, is_true: bool| (values.data_type(), bytes(values, is_true));
            let (data_type, data) = match control.signal {
                Signal::Start(values) => of(values, request.flags & START != 0),
                Signal::End(values) => of(values, request.flags & END != 0),
                Signal::Ready(values) => of(values, is_ready),
                Signal::CorrelationId(data_type) => {
                    (data_type, correlation(&request.correlation_id, data_type))
                }
            };
            let (name, shape) = (control.name.clone(), self.shape.clone());
            request.inputs.push(Input { name, data_type, shape, data });
        }
    }

    /// A request that keeps a place: as another one without controls, with zeros and empty texts.
    pub(super) fn stand_in(&self, other: &Request) -> Request {
        let zero = |input: &Input| {
            // An empty text is its length.
            let bytes = match input.data_type {
                DataType::Bytes => 4 * input.shape.iter().product::<i64>() as usize,
                _ => input.data.len(),
            };
            let (name, shape) = (input.name.clone(), input.shape.clone());
            Input { name, data_type: input.data_type, shape, data: BytesMut::zeroed(bytes) }
        };
        let inputs = other.inputs.iter().map(zero).collect();
        let mut request = Request { outputs: other.outputs.clone(), inputs, ..Request::default() };
        self.add(&mut request, false);
        request
    }
}

fn greatest(data_type: DataType) -> u64 {
    match data_type {
        DataType::Int32 => i32::MAX as u64,
        DataType::Uint32 => u32::MAX.into(),
        DataType::Int64 => i64::MAX as u64,
        _ => u64::MAX,
    }
}

fn bytes(values: FalseTrue, is_true: bool) -> BytesMut {
    let place = usize::from(is_true);
    match values {
        FalseTrue::Int32(values) => BytesMut::from(&values[place].to_le_bytes()[..]),
        FalseTrue::Fp32(values) => BytesMut::from(&values[place].to_le_bytes()[..]),
        FalseTrue::Bool(values) => BytesMut::from(&[u8::from(values[place])][..]),
    }
}

/// The id as an element of this type, which it fits: see [`Controls::check`]. A stand-in has no id: 0, or an empty text.
fn correlation(id: &CorrelationId, data_type: DataType) -> BytesMut {
    match (data_type.size(), id) {
        (Some(size), CorrelationId::Number(number)) => {
            BytesMut::from(&number.to_le_bytes()[..size])
        }
        (Some(size), CorrelationId::Text(_)) => BytesMut::zeroed(size),
        (None, CorrelationId::Text(text)) => encode_bytes([text.as_bytes()]),
        (None, CorrelationId::Number(_)) => encode_bytes([&b""[..]]),
    }
}
