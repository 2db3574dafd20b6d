//! Requests as Python objects, and responses from them.

use super::host::Live;
use crate::request::{
    Code, CorrelationId, DataType, Failure, Input, Lent, Output, Parameter, Parameters, Request,
    Response,
};
use bytes::{Bytes, BytesMut};
use hydrozoa::{Buffer, Error, Object, Result, Session, Tensor, ToPython, Value};

/// The memory of an output: the interpreter's own.
struct OutputMemory<T> {
    data: *const u8,
    len: usize,
    _owner: T,
}

// SAFETY: the owner may be dropped by any thread, and nobody writes the memory while it lives.
unsafe impl<T: Send> Send for OutputMemory<T> {}

impl<T> AsRef<[u8]> for OutputMemory<T> {
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the owner keeps these bytes, and nobody writes them: see `memory`.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

/// The memory that a tensor's `_sent` has named. Only the response refers to it, or it is immutable, or a copy:
/// `_hydrozoa_tensors` sees to that. So nobody writes it.
fn memory(object: &Object<'_>, size: Option<usize>) -> Result<Bytes> {
    if let Ok(buffer) = object.extract::<Buffer>() {
        let (data, len) = (buffer.data_ptr().cast_const(), buffer.len());
        return Ok(Bytes::from_owner(OutputMemory { data, len, _owner: buffer }));
    }
    let tensor: Tensor = object.extract()?;
    let (data, len) =
        (tensor.data_ptr().cast::<u8>().cast_const(), tensor.len() * size.unwrap_or(1));
    Ok(Bytes::from_owner(OutputMemory { data, len, _owner: tensor }))
}

fn parameter<'s>(session: &'s Session, parameter: &Parameter) -> Result<Object<'s>> {
    match parameter {
        Parameter::Bool(value) => session.object_from(value),
        Parameter::Int(value) => session.object_from(value),
        Parameter::Double(value) => session.object_from(value),
        Parameter::Text(value) => session.object_from(value.as_str()),
    }
}

pub(super) fn parameters<'s>(session: &'s Session, values: &Parameters) -> Result<Object<'s>> {
    let dict = session.import("builtins")?.call_method("dict", ())?;
    for (name, value) in values {
        dict.set_item(name.as_str(), parameter(session, value)?)?;
    }
    Ok(dict)
}

/// The elements of a type that numpy lacks, as an object with `__dlpack__`.
fn foreign<'s>(session: &'s Session, shape: &[i64], mut data: BytesMut) -> Result<Object<'s>> {
    let mut strides = vec![1; shape.len()];
    for place in (1..shape.len()).rev() {
        strides[place - 1] = strides[place] * shape[place];
    }
    let start = data.as_mut_ptr().cast();
    // SAFETY: the request was checked: the shape's elements are the bytes. They do not move with their handle, which owns
    // them alone, and nothing in Rust uses them any more.
    let tensor = unsafe {
        Tensor::from_raw_parts(
            start,
            hydrozoa::DataType::BF16,
            hydrozoa::Device::CPU,
            shape,
            &strides,
            false,
            data,
        )
    };
    session.lend_tensor(&tensor)
}

/// A tensor's name, type, extents and memory, as `Tensor._received` takes them.
fn received<'s>(
    session: &'s Session,
    name: &str,
    data_type: DataType,
    shape: &[i64],
    mut data: BytesMut,
) -> Result<Object<'s>> {
    let memory = match data_type {
        DataType::Bf16 => foreign(session, shape, data)?,
        _ => {
            let (start, len) = (data.as_mut_ptr(), data.len());
            // SAFETY: the bytes do not move with their handle. It owns them alone, goes with them, and nothing in Rust
            // uses them any more.
            unsafe { session.lend_raw(start, len, false, data)? }
        }
    };
    session.object_from(&(name, data_type.name(), shape, memory))
}

/// OutputMemory for an array of numpy starts where its elements may.
fn aligned(data: BytesMut, data_type: DataType) -> BytesMut {
    match data_type.size() {
        Some(size) if !data.as_ptr().addr().is_multiple_of(size) => BytesMut::from(&data[..]),
        _ => data,
    }
}

fn input(session: &Session, input: Input) -> Result<Object<'_>> {
    let data = aligned(input.data, input.data_type);
    received(session, &input.name, input.data_type, &input.shape, data)
}

/// An input over memory of another server's. Models may not write it.
fn lent(session: &Session, lent: Lent) -> Result<Object<'_>> {
    let (start, len) = (lent.data.as_ptr().cast_mut(), lent.data.len());
    // SAFETY: the bytes do not move with their handle, which keeps them. Python may not write them.
    let memory = unsafe { session.lend_raw(start, len, true, lent.data)? };
    session.object_from(&(&*lent.name, lent.data_type.name(), &*lent.shape, memory))
}

/// A request as `InferenceRequest._received` takes it.
pub(super) fn request(
    session: &Session,
    request: Request,
    others: Vec<Lent>,
    live: Live,
) -> Result<Object<'_>> {
    let own = request.inputs.into_iter().map(|given| input(session, given));
    let others = others.into_iter().map(|given| lent(session, given));
    let inputs: Vec<Object<'_>> = own.chain(others).collect::<Result<_>>()?;
    let correlation_id = match &request.correlation_id {
        CorrelationId::Number(number) => session.object_from(number)?,
        CorrelationId::Text(text) => session.object_from(text.as_str())?,
    };
    (
        hydrozoa::Instance::new(live),
        request.id,
        correlation_id,
        request.flags,
        request.timeout,
        parameters(session, &request.parameters)?,
        request.outputs,
        inputs,
    )
        .to_python(session)
}

/// A response as `InferenceResponse._received` takes it.
pub(super) fn response(
    session: &Session,
    response: std::result::Result<Response, Failure>,
) -> Result<Object<'_>> {
    match response {
        Ok(response) => {
            let outputs = response.outputs.into_iter().map(|output| {
                // The model may write to its inputs, and another model's output may be in use elsewhere.
                let data = BytesMut::from(&output.data[..]);
                received(session, &output.name, output.data_type, &output.shape, data)
            });
            let outputs: Vec<Object<'_>> = outputs.collect::<Result<_>>()?;
            session.object_from(&((), parameters(session, &response.parameters)?, outputs))
        }
        Err(failure) => {
            let error = (failure.code.number(), failure.message);
            session.object_from(&(
                error,
                parameters(session, &Parameters::new())?,
                Vec::<i64>::new(),
            ))
        }
    }
}

fn parameters_of(object: &Object<'_>) -> Result<Parameters> {
    let Value::Dict(pairs) = object.extract()? else {
        return Err(Error::raise("TypeError", "parameters are a dict"));
    };
    let one = |(name, value)| {
        let Value::Str(name) = name else {
            return Err(Error::raise("TypeError", "a parameter's name is a str"));
        };
        let value = match value {
            Value::Bool(value) => Parameter::Bool(value),
            Value::Float(value) => Parameter::Double(value),
            Value::Str(value) => Parameter::Text(value),
            Value::Int(value) => Parameter::Int(i64::try_from(&value).map_err(|_| {
                Error::raise("OverflowError", format!("parameter {name} does not fit 64 bits"))
            })?),
            _ => {
                return Err(Error::raise(
                    "TypeError",
                    format!("parameter {name} is not a bool, int, float or str"),
                ));
            }
        };
        Ok((name, value))
    };
    pairs.into_iter().map(one).collect()
}

fn output(object: &Object<'_>) -> Result<Output> {
    let (name, data_type, shape, data): (String, String, Vec<i64>, Object<'_>) =
        object.extract()?;
    let data_type =
        DataType::of_name(&data_type).expect("the tensor has its name from the same table");
    Ok(Output { name, data_type, shape, data: memory(&data, data_type.size())? })
}

/// The response in the return value of `InferenceResponse._sent`.
pub(super) fn sent(object: &Object<'_>) -> Result<std::result::Result<Response, Failure>> {
    let (error, given, outputs): (Option<(i64, String)>, Object<'_>, Vec<Object<'_>>) =
        object.extract()?;
    if let Some((code, message)) = error {
        return Ok(Err(Failure::new(Code::of_number(code), message)));
    }
    let outputs = outputs.iter().map(output).collect::<Result<_>>()?;
    Ok(Ok(Response { outputs, parameters: parameters_of(&given)? }))
}

/// The request that `InferenceRequest.exec` hands over.
pub(super) fn asked(object: &Object<'_>) -> Result<Request> {
    type Asked<'s> = (String, Object<'s>, u32, u64, Object<'s>, Vec<String>, Vec<Object<'s>>);
    let (id, correlation_id, flags, timeout, given, outputs, inputs): Asked<'_> =
        object.extract()?;
    let correlation_id = match correlation_id.extract::<u64>() {
        Ok(number) => CorrelationId::Number(number),
        Err(_) => CorrelationId::Text(correlation_id.extract()?),
    };
    let inputs = inputs.iter().map(|object| {
        let given = output(object)?;
        // The other model may write what it gets.
        let data = BytesMut::from(&given.data[..]);
        Ok(Input { name: given.name, data_type: given.data_type, shape: given.shape, data })
    });
    Ok(Request {
        id,
        correlation_id,
        flags,
        priority: 0,
        timeout,
        parameters: parameters_of(&given)?,
        outputs,
        inputs: inputs.collect::<Result<_>>()?,
    })
}
