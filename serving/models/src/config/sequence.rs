//! `sequence_batching`: requests of one client that belong together.

use super::{ConfigError, TensorConfig};
use crate::request::DataType;
use serde::Deserialize;
use std::time::Duration;

/// How requests of sequences are joined to batches.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SequenceBatching {
    /// How long a sequence without a request keeps its place.
    pub idle: Duration,
    /// Inputs that the server adds to each request.
    pub controls: Vec<Control>,
    /// Which sequences are served together.
    pub strategy: Strategy,
}

/// Which sequences are served together.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Strategy {
    /// A sequence has a place of the batch for itself, from its first request to its last.
    Direct {
        /// How long a request may wait for those of other sequences.
        delay: Duration,
        /// The share of places from which on nobody waits; 0 for no wait at all.
        utilization: f32,
    },
    /// A batch has one request of each sequence that has one, the oldest first.
    Oldest {
        /// Sequences that an instance serves at a time. `None` for as many as a batch has places.
        candidates: Option<usize>,
        /// Sizes for which nobody waits.
        preferred_batch_size: Vec<i32>,
        /// How long a request may wait for those of other sequences.
        delay: Duration,
    },
}

/// An input that the server adds to each request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Control {
    /// Its name.
    pub name: String,
    /// Its meaning.
    pub signal: Signal,
}

/// The meaning of a control.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Signal {
    /// Whether the request is the first of its sequence.
    Start(
        /// The values for no and yes.
        FalseTrue,
    ),
    /// Whether there is a request in this place of the batch.
    Ready(
        /// The values for no and yes.
        FalseTrue,
    ),
    /// Whether the request is the last of its sequence.
    End(
        /// The values for no and yes.
        FalseTrue,
    ),
    /// Which sequence the request belongs to.
    CorrelationId(
        /// An integer of 32 or 64 bits, or a text.
        DataType,
    ),
}

/// The values of a control for no and yes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FalseTrue {
    /// Integers.
    Int32(
        /// For no and yes.
        [i32; 2],
    ),
    /// Numbers.
    Fp32(
        /// For no and yes.
        [f32; 2],
    ),
    /// Truth values.
    Bool(
        /// For no and yes.
        [bool; 2],
    ),
}

impl FalseTrue {
    /// The type of the control's element.
    pub fn data_type(self) -> DataType {
        match self {
            FalseTrue::Int32(_) => DataType::Int32,
            FalseTrue::Fp32(_) => DataType::Fp32,
            FalseTrue::Bool(_) => DataType::Bool,
        }
    }
}

/// `max_sequence_idle_microseconds` where a file says nothing.
pub(super) const IDLE: u64 = 1_000_000;

/// The types that a control for correlation ids may have.
const CORRELATION: [DataType; 5] =
    [DataType::Uint64, DataType::Int64, DataType::Uint32, DataType::Int32, DataType::Bytes];

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Fields {
    max_sequence_idle_microseconds: u64,
    control_input: Vec<ControlInput>,
    #[serde(default)]
    direct: Option<Direct>,
    #[serde(default)]
    oldest: Option<Oldest>,
    iterative_sequence: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct ControlInput {
    name: String,
    control: Vec<ControlFields>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct ControlFields {
    kind: Kind,
    int32_false_true: Vec<i32>,
    fp32_false_true: Vec<f32>,
    bool_false_true: Vec<bool>,
    data_type: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
enum Kind {
    #[serde(rename = "CONTROL_SEQUENCE_START")]
    Start,
    #[serde(rename = "CONTROL_SEQUENCE_READY")]
    Ready,
    #[serde(rename = "CONTROL_SEQUENCE_END")]
    End,
    #[serde(rename = "CONTROL_SEQUENCE_CORRID")]
    CorrelationId,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Direct {
    max_queue_delay_microseconds: u64,
    minimum_slot_utilization: f32,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Oldest {
    max_candidate_sequences: i32,
    preferred_batch_size: Vec<i32>,
    max_queue_delay_microseconds: u64,
    preserve_ordering: bool,
}

fn refused(field: &str, problem: impl Into<String>) -> ConfigError {
    ConfigError::field(format!("sequence_batching.{field}"), problem)
}

impl Fields {
    /// The batching that the fields ask for, checked against the model's inputs.
    pub(super) fn parse(
        &self,
        max_batch_size: i32,
        inputs: &[TensorConfig],
    ) -> Result<SequenceBatching, ConfigError> {
        if self.iterative_sequence {
            return Err(refused("iterative_sequence", "this server has no iterative sequences"));
        }
        let idle = Duration::from_micros(self.max_sequence_idle_microseconds);
        let controls = self.controls(inputs)?;
        let strategy = match &self.oldest {
            Some(oldest) => oldest.parse(max_batch_size)?,
            None => self.direct.clone().unwrap_or_default().parse()?,
        };
        Ok(SequenceBatching { idle, controls, strategy })
    }

    fn controls(&self, inputs: &[TensorConfig]) -> Result<Vec<Control>, ConfigError> {
        let mut controls: Vec<Control> = Vec::new();
        for (place, input) in self.control_input.iter().enumerate() {
            let field = format!("control_input[{place}]");
            let name = &input.name;
            if name.is_empty() {
                return Err(refused(&format!("{field}.name"), "it must not be empty"));
            }
            if controls.iter().any(|other| other.name == *name) {
                return Err(refused(&format!("{field}.name"), format!("`{name}` is there twice")));
            }
            if inputs.iter().any(|other| other.name == *name) {
                let problem = format!("`{name}` is an input of the model, and clients send it");
                return Err(refused(&format!("{field}.name"), problem));
            }
            let [control] = &input.control[..] else {
                let problem = format!("`{name}` needs exactly one, not {}", input.control.len());
                return Err(refused(&format!("{field}.control"), problem));
            };
            let signal = control.signal(&format!("{field}.control[0]"))?;
            let is_same = |other: &Control| {
                std::mem::discriminant(&other.signal) == std::mem::discriminant(&signal)
            };
            if let Some(other) = controls.iter().find(|other| is_same(other)) {
                let problem = format!("`{}` and `{name}` are of the same kind", other.name);
                return Err(refused(&format!("{field}.control[0].kind"), problem));
            }
            controls.push(Control { name: name.clone(), signal });
        }
        Ok(controls)
    }
}

impl ControlFields {
    fn signal(&self, field: &str) -> Result<Signal, ConfigError> {
        Ok(match self.kind {
            Kind::Start => Signal::Start(self.values(field)?),
            Kind::Ready => Signal::Ready(self.values(field)?),
            Kind::End => Signal::End(self.values(field)?),
            Kind::CorrelationId => Signal::CorrelationId(self.correlation(field)?),
        })
    }

    fn values(&self, field: &str) -> Result<FalseTrue, ConfigError> {
        match (&self.int32_false_true[..], &self.fp32_false_true[..], &self.bool_false_true[..]) {
            (&[no, yes], [], []) => Ok(FalseTrue::Int32([no, yes])),
            ([], &[no, yes], []) => Ok(FalseTrue::Fp32([no, yes])),
            ([], [], &[no, yes]) => Ok(FalseTrue::Bool([no, yes])),
            _ => {
                let problem = "it needs two values, for no and yes, in exactly one of int32_false_true, fp32_false_true and \
                               bool_false_true";
                Err(refused(field, problem))
            }
        }
    }

    fn correlation(&self, field: &str) -> Result<DataType, ConfigError> {
        if !self.int32_false_true.is_empty()
            || !self.fp32_false_true.is_empty()
            || !self.bool_false_true.is_empty()
        {
            let problem = "a correlation id has a data_type, and no values for no and yes";
            return Err(refused(field, problem));
        }
        let found = DataType::of_config_name(&self.data_type);
        found.filter(|data_type| CORRELATION.contains(data_type)).ok_or_else(|| {
            let problem = format!(
                "{} is not one of {}",
                self.data_type,
                CORRELATION.map(DataType::config_name).join(", ")
            );
            refused(&format!("{field}.data_type"), problem)
        })
    }
}

impl Direct {
    fn parse(self) -> Result<Strategy, ConfigError> {
        let utilization = self.minimum_slot_utilization;
        if !(0.0..=1.0).contains(&utilization) {
            let problem = format!("{utilization} is not between 0 and 1");
            return Err(refused("direct.minimum_slot_utilization", problem));
        }
        let delay = Duration::from_micros(self.max_queue_delay_microseconds);
        Ok(Strategy::Direct { delay, utilization })
    }
}

impl Oldest {
    fn parse(&self, max_batch_size: i32) -> Result<Strategy, ConfigError> {
        if self.preserve_ordering {
            let problem = "this server sends each response as soon as it has it";
            return Err(refused("oldest.preserve_ordering", problem));
        }
        let sizes = &self.preferred_batch_size;
        if let Some(size) = sizes.iter().find(|size| **size < 1 || **size > max_batch_size) {
            let problem =
                format!("{size} is not between 1 and max_batch_size, which is {max_batch_size}");
            return Err(refused("oldest.preferred_batch_size", problem));
        }
        let candidates = usize::try_from(self.max_candidate_sequences)
            .map_err(|_| refused("oldest.max_candidate_sequences", "it must be 0 or more"))?;
        Ok(Strategy::Oldest {
            candidates: Some(candidates).filter(|candidates| *candidates > 0),
            preferred_batch_size: sizes.clone(),
            delay: Duration::from_micros(self.max_queue_delay_microseconds),
        })
    }
}
