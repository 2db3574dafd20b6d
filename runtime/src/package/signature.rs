//! The inputs and outputs of a packaged object's call.

use super::{Archive, Package, PackageError};
use crate::object::Object;
use crate::session::Session;
use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Where a package has its object: package and resource, as `hydrozoa package build` and torch::deploy's examples name it.
pub const OBJECT: (&str, &str) = ("model", "model.pkl");

/// Where it has the arguments of one call of that, a tuple.
pub const EXAMPLE: (&str, &str) = ("model", "example.pkl");

/// The record. torch.package's own importer passes over folders of `.data`.
pub(super) const RECORD: &str = ".data/hydrozoa/signature";

/// The first line of the record.
const HEAD: &str = "hydrozoa signature 1";

/// The payload's part of it.
const MODULE: &str = "_hydrozoa.describing";

/// The inputs and outputs of a packaged object's call, by the example in its package.
///
/// `hydrozoa package build` writes it into the package. Its text has a line for each input and output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Signature {
    /// The largest batch that a call takes: then the first extent of all inputs and outputs is that of the batch. 0 if the object
    /// knows no batches.
    pub max_batch_size: usize,
    /// The arguments that are tensors or arrays, in their order.
    pub inputs: Vec<(usize, Described)>,
    /// The results, in their order.
    pub outputs: Vec<Described>,
}

/// An input or output. An input stands beside its place among the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Described {
    /// A parameter's name, a dict's key, or `INPUT__0` and `OUTPUT__0` with the place.
    pub name: String,
    /// Its Python type.
    pub kind: Kind,
    /// The type of the elements, as numpy and torch name it: `float32`. `text` for texts and byte strings.
    pub data_type: String,
    /// The extents, the batch's included. `None` for one that is free.
    pub shape: Vec<Option<u64>>,
}

/// The Python type of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A `torch.Tensor`.
    Tensor,
    /// A `numpy.ndarray`.
    Array,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Array => "array",
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        [Self::Tensor, Self::Array].into_iter().find(|kind| kind.name() == name)
    }
}

/// The result of `describe`: an input's place, kind, type, extents and name, and an output's.
type Rows =
    (Vec<(usize, String, String, Vec<u64>, String)>, Vec<(String, String, Vec<u64>, String)>);

impl Signature {
    /// Calls an object with the arguments of an example, and describes both. All extents are those of the example, without
    /// batches.
    ///
    /// # Errors
    ///
    /// The exception that the call raises; a `TypeError` that says which argument or result is neither a tensor nor an array.
    pub fn of_example(
        session: &Session,
        object: &Object<'_>,
        arguments: &Object<'_>,
    ) -> Result<Self> {
        let result = describing(session)?.call_method("call", (object, arguments))?;
        Self::of_call(session, object, arguments, &result)
    }

    /// The same for a call that has been made.
    pub(super) fn of_call(
        session: &Session,
        object: &Object<'_>,
        arguments: &Object<'_>,
        result: &Object<'_>,
    ) -> Result<Self> {
        let (inputs, outputs): Rows =
            describing(session)?.call_method("describe", (object, arguments, result))?.extract()?;
        let described = |kind: String, data_type, shape: Vec<u64>, name| Described {
            name,
            kind: Kind::of_name(&kind).expect("Python's part has the same names"),
            data_type,
            shape: shape.into_iter().map(Some).collect(),
        };
        Ok(Self {
            max_batch_size: 0,
            inputs: inputs
                .into_iter()
                .map(|(place, kind, data_type, shape, name)| {
                    (place, described(kind, data_type, shape, name))
                })
                .collect(),
            outputs: outputs
                .into_iter()
                .map(|(kind, data_type, shape, name)| described(kind, data_type, shape, name))
                .collect(),
        })
    }

    /// Frees the first extent of all inputs and outputs for batches up to a size.
    ///
    /// # Errors
    ///
    /// A text: one has no extents, or the outputs have another first extent than the inputs.
    pub(super) fn with_batches(mut self, most: usize) -> std::result::Result<Self, String> {
        self.max_batch_size = most;
        let first_name = self.inputs.first().map(|(_, input)| input.name.clone());
        let first_name = first_name.unwrap_or_default();
        let inputs = self.inputs.iter_mut().map(|(_, input)| input);
        let mut size = None;
        for one in inputs.chain(&mut self.outputs) {
            let first = one
                .shape
                .first_mut()
                .ok_or_else(|| format!("{} has no extents, and so none of the batch", one.name))?;
            let first = first.take();
            if *size.get_or_insert(first) != first {
                return Err(format!(
                    "{} has {} as its first extent, and {first_name} has {}; the batch's must be equal",
                    one.name,
                    extent(first),
                    extent(size.flatten())
                ));
            }
        }
        Ok(self)
    }

    /// Checks the rules for every signature.
    fn check(&self) -> std::result::Result<(), String> {
        let inputs = self.inputs.iter().map(|(_, input)| input);
        for all in [inputs.collect::<Vec<_>>(), self.outputs.iter().collect()] {
            for (place, one) in all.iter().enumerate() {
                if all[..place].iter().any(|other| other.name == one.name) {
                    return Err(format!("{} is there twice", one.name));
                }
                if self.max_batch_size > 0 && one.shape.first() != Some(&None) {
                    return Err(format!("{} has no extent for the batch", one.name));
                }
            }
        }
        let places: Vec<_> = self.inputs.iter().map(|(place, _)| place).collect();
        match places.is_sorted_by(|one, next| one < next) {
            true => Ok(()),
            false => Err("its inputs are in no order".to_owned()),
        }
    }

    /// Frees one more extent of an input or output.
    ///
    /// # Errors
    ///
    /// A text: the input, output or extent does not exist.
    pub(super) fn with_free(
        mut self,
        name: &str,
        place: usize,
    ) -> std::result::Result<Self, String> {
        let inputs = self.inputs.iter_mut().map(|(_, input)| input);
        let mut all: Vec<_> = inputs.chain(&mut self.outputs).collect();
        let names: Vec<_> = all.iter().map(|one| one.name.clone()).collect();
        let Some(one) = all.iter_mut().find(|one| one.name == name) else {
            return Err(format!("{name} is neither an input nor an output; {}", names.join(", ")));
        };
        let count = one.shape.len();
        match one.shape.get_mut(place) {
            Some(extent) => *extent = None,
            None => return Err(format!("{name} has {count} extents, and none at {place}")),
        }
        Ok(self)
    }
}

/// Python's module `describing` of the session's interpreter. Its `parameters(object)` are the names that a call's positional
/// arguments have, and its `outputs(result)` the pairs of names and values that a result is made of. Servers of packaged objects
/// use these names for both.
///
/// # Errors
///
/// An exception of the import.
pub fn describing(session: &Session) -> Result<Object<'_>> {
    session.import(MODULE)
}

fn extent(extent: Option<u64>) -> String {
    extent.map_or_else(|| "any".to_owned(), |extent| extent.to_string())
}

/// `float32 [-1,3] name`, as a line has it.
impl fmt::Display for Described {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extents: Vec<_> = self
            .shape
            .iter()
            .map(|extent| extent.map_or_else(|| "-1".to_owned(), |extent| extent.to_string()))
            .collect();
        let (kind, data_type, extents) = (self.kind.name(), &self.data_type, extents.join(","));
        write!(formatter, "{kind} {data_type} [{extents}] {}", self.name)
    }
}

impl FromStr for Described {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let mut words = text.splitn(4, ' ');
        let mut word = || words.next().filter(|word| !word.is_empty());
        let mut parse = || {
            let kind = Kind::of_name(word()?)?;
            let data_type = word()?.to_owned();
            let extents = word()?.strip_prefix('[')?.strip_suffix(']')?;
            let extents = extents.split(',').filter(|_| !extents.is_empty());
            let shape = extents.map(|extent| match extent {
                "-1" => Some(None),
                _ => extent.parse().ok().map(Some),
            });
            let shape = shape.collect::<Option<Vec<_>>>()?;
            Some(Self { kind, data_type, shape, name: word()?.to_owned() })
        };
        parse().ok_or_else(|| format!("`{text}` describes no tensor"))
    }
}

/// The text of the record.
impl fmt::Display for Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{HEAD}")?;
        writeln!(formatter, "batch {}", self.max_batch_size)?;
        for (place, input) in &self.inputs {
            writeln!(formatter, "input {place} {input}")?;
        }
        self.outputs.iter().try_for_each(|output| writeln!(formatter, "output {output}"))
    }
}

impl FromStr for Signature {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fault = |problem: String| Error::Configuration(format!("no signature: {problem}"));
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(fault(format!("its first line is not `{HEAD}`")));
        }
        let mut signature = Self { max_batch_size: 0, inputs: Vec::new(), outputs: Vec::new() };
        for line in lines {
            let odd = || fault(format!("`{line}` is not a line of one"));
            let (word, rest) = line.split_once(' ').ok_or_else(odd)?;
            match word {
                "batch" => signature.max_batch_size = rest.parse().map_err(|_| odd())?,
                "input" => {
                    let (place, rest) = rest.split_once(' ').ok_or_else(odd)?;
                    let place = place.parse().map_err(|_| odd())?;
                    signature.inputs.push((place, rest.parse().map_err(fault)?));
                }
                "output" => signature.outputs.push(rest.parse().map_err(fault)?),
                _ => return Err(odd()),
            }
        }
        signature.check().map_err(fault)?;
        Ok(signature)
    }
}

impl Archive {
    /// The inputs and outputs of a call of the package's object, if the package says them. `hydrozoa package build` writes
    /// them for an object with an example.
    ///
    /// # Errors
    ///
    /// [`PackageError::Record`] for a record that is not a signature, [`PackageError::Checksum`] for a damaged one.
    pub fn signature(&self) -> std::result::Result<Option<Signature>, PackageError> {
        if !self.contains(RECORD) {
            return Ok(None);
        }
        let signature = self.read_text(RECORD)?.parse::<Signature>();
        signature.map(Some).map_err(|error| PackageError::Record {
            package: self.label().to_owned(),
            record: RECORD.to_owned(),
            reason: format!("is {error}"),
        })
    }
}

impl Package {
    /// Whether the package has the arguments of one call ([`EXAMPLE`]).
    pub fn has_example(&self) -> bool {
        self.archive().contains(&super::archive::resource_path(EXAMPLE.0, EXAMPLE.1))
    }
}
