//! Parameters of requests and responses.

use super::proto::inference::InferParameter;
use super::proto::inference::infer_parameter::ParameterChoice as Choice;
use super::status::invalid;
use crate::inference::shared_memory::{RegionPart, Regions};
use hydrozoa_models::{Code, CorrelationId, Failure, Parameter, Parameters, Request};
use std::collections::BTreeMap;

type Given = BTreeMap<String, InferParameter>;

/// Start and end of a sequence among a request's flags.
const START: u32 = 1;
const END: u32 = 2;

/// The only parameter that a client may name with the prefix that is Triton's own.
const EMPTY_FINAL: &str = "triton_enable_empty_final_response";

fn wrong_type(name: &str, expected: &str) -> Failure {
    invalid(format!("invalid value type for '{name}' parameter, expected {expected}."))
}

fn wrong_value(name: &str) -> Failure {
    invalid(format!("invalid value for '{name}', expected value >= 0."))
}

fn boolean(name: &str, value: &Option<Choice>) -> Result<bool, Failure> {
    match value {
        Some(Choice::BoolParam(value)) => Ok(*value),
        _ => Err(wrong_type(name, "bool_param")),
    }
}

/// Reads a request's parameters. Returns whether the client wants to be told by an empty response that there is no more.
///
/// # Errors
///
/// [`Code::InvalidArgument`], in Triton's words.
pub(super) fn read(given: Given, request: &mut Request) -> Result<bool, Failure> {
    let mut wants_empty_final = false;
    for (name, value) in given {
        let value = value.parameter_choice;
        match name.as_str() {
            "sequence_id" => {
                request.correlation_id = match value {
                    // As with Triton, the upper half of the numbers is given as negative ones.
                    Some(Choice::Int64Param(number)) => {
                        CorrelationId::Number(number.cast_unsigned())
                    }
                    Some(Choice::StringParam(text)) => CorrelationId::Text(text),
                    _ => return Err(wrong_type(&name, "int64_param or string_param")),
                };
            }
            "sequence_start" => {
                request.flags |= if boolean(&name, &value)? { START } else { 0 };
            }
            "sequence_end" => request.flags |= if boolean(&name, &value)? { END } else { 0 },
            "priority" => {
                request.priority = match value {
                    Some(Choice::Int64Param(number)) => {
                        number.try_into().map_err(|_| wrong_value(&name))?
                    }
                    Some(Choice::Uint64Param(number)) => number,
                    _ => return Err(wrong_type(&name, "int64_param or uint64_param")),
                };
            }
            "timeout" => {
                request.timeout = match value {
                    Some(Choice::Int64Param(number)) => {
                        number.try_into().map_err(|_| wrong_value(&name))?
                    }
                    _ => return Err(wrong_type(&name, "int64_param")),
                };
            }
            EMPTY_FINAL => wants_empty_final = boolean(&name, &value)?,
            _ if name.starts_with("triton_") => {
                return Err(invalid(format!(
                    "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting \
                     with 'triton_' are allowed: {EMPTY_FINAL}"
                )));
            }
            _ => {
                let value = match value {
                    Some(Choice::BoolParam(value)) => Parameter::Bool(value),
                    Some(Choice::Int64Param(value)) => Parameter::Int(value),
                    Some(Choice::StringParam(value)) => Parameter::Text(value),
                    Some(Choice::DoubleParam(value)) => Parameter::Double(value),
                    Some(Choice::Uint64Param(_)) | None => {
                        let expected = "int64_param, bool_param, or string_param";
                        return Err(wrong_type(&name, expected));
                    }
                };
                request.parameters.push((name, value));
            }
        }
    }
    Ok(wants_empty_final)
}

/// A parameter that is true or false.
pub(super) fn flag(value: bool) -> InferParameter {
    InferParameter { parameter_choice: Some(Choice::BoolParam(value)) }
}

/// A response's parameters.
///
/// # Errors
///
/// [`Code::Unsupported`] for a type that the protocol lacks.
pub(super) fn write(parameters: Parameters) -> Result<Given, Failure> {
    let one = |(name, value): (String, Parameter)| {
        let choice = match value {
            Parameter::Bool(value) => Choice::BoolParam(value),
            Parameter::Int(value) => Choice::Int64Param(value),
            Parameter::Double(value) => Choice::DoubleParam(value),
            Parameter::Text(value) => Choice::StringParam(value),
            other => {
                let words = format!("response parameter '{name}' has no type in gRPC: {other:?}");
                return Err(Failure::new(Code::Unsupported, words));
            }
        };
        Ok((name, InferParameter { parameter_choice: Some(choice) }))
    };
    parameters.into_iter().map(one).collect()
}

/// The shared memory that an input or output names, if it names one.
///
/// # Errors
///
/// [`Code::NotFound`] for an unregistered region, [`Code::InvalidArgument`] for invalid parameters, in Triton's words.
pub(super) fn shared_memory(
    tensor: &str,
    given: &Given,
    regions: &Regions,
) -> Result<Option<RegionPart>, Failure> {
    let region = given.get("shared_memory_region").map(|region| &region.parameter_choice);
    let number = |name: &str| -> Result<Option<u64>, Failure> {
        let Some(value) = given.get(name) else { return Ok(None) };
        if region.is_none() {
            return Err(invalid(format!(
                "'{name}' can not be specified without 'shared_memory_region' parameter for tensor '{tensor}'"
            )));
        }
        match value.parameter_choice {
            // A negative number becomes larger than any region.
            Some(Choice::Int64Param(number)) => Ok(Some(number.cast_unsigned())),
            _ => Err(invalid(format!(
                "invalid value type for '{name}' parameter for tensor '{tensor}', expected int64_param."
            ))),
        }
    };
    let (offset, size) = (number("shared_memory_offset")?, number("shared_memory_byte_size")?);
    match (region, size) {
        (None, _) => Ok(None),
        (Some(Some(Choice::StringParam(_))), None) => Err(invalid(format!(
            "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor '{tensor}'"
        ))),
        (Some(Some(Choice::StringParam(region))), Some(size)) => {
            regions.part(region, offset.unwrap_or_default(), size).map(Some)
        }
        (Some(_), _) => Err(invalid(format!(
            "invalid value type for 'shared_memory_region' parameter for tensor '{tensor}', expected string_param."
        ))),
    }
}

/// How many classes an output is wanted as, if it is.
///
/// # Errors
///
/// [`Code::InvalidArgument`], in Triton's words.
pub(super) fn classification(given: &Given) -> Result<Option<usize>, Failure> {
    match given.get("classification").map(|value| &value.parameter_choice) {
        None => Ok(None),
        Some(Some(Choice::Int64Param(count @ 1..))) => {
            Ok(Some(usize::try_from(*count).unwrap_or(usize::MAX)))
        }
        Some(Some(Choice::Int64Param(_))) => {
            Err(invalid("invalid value for 'classification' parameter, expected >= 0"))
        }
        Some(_) => {
            Err(invalid("invalid value type for 'classification' parameter, expected int64_param"))
        }
    }
}
