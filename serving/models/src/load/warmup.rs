//! Requests that an instance runs before its model serves (`model_warmup`).

use crate::config::{ModelConfig, Warmup, WarmupData, WarmupInput, fitting};
use crate::load::LoadError;
use crate::queue::{Pending, Queued};
use crate::request::{DataType, Event, Input, Request};
use bytes::BytesMut;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

/// The folder of a model that has the files of its warm-up.
const FOLDER: &str = "warmup";

/// The name of the sample made from a package's example.
pub(crate) const EXAMPLE: &str = "example";

/// The samples that a model's instances run before they serve.
pub(crate) struct Samples {
    model: String,
    version: i64,
    is_decoupled: bool,
    samples: Vec<Sample>,
}

struct Sample {
    name: String,
    batch_size: u32,
    count: u32,
    inputs: Vec<Input>,
}

impl Samples {
    /// The requests that a configuration describes, with what files in the model's folder have.
    pub(crate) fn new(
        config: &ModelConfig,
        directory: &Path,
        version: i64,
    ) -> Result<Self, LoadError> {
        let mut samples = Self {
            model: config.name().to_owned(),
            version,
            is_decoupled: config.is_decoupled(),
            samples: Vec::new(),
        };
        for warmup in config.warmups().iter().filter(|warmup| warmup.batch_size > 0) {
            match Sample::new(warmup, config, directory) {
                Ok(sample) => samples.samples.push(sample),
                Err(problem) => return Err(samples.failed(&warmup.name, problem)),
            }
        }
        Ok(samples)
    }

    /// The outcome of a package's example.
    pub(crate) fn example(&self, problem: Option<String>) -> Result<(), LoadError> {
        problem.map_or(Ok(()), |problem| Err(self.failed(EXAMPLE, problem)))
    }

    fn failed(&self, sample: &str, problem: String) -> LoadError {
        LoadError::Warmup {
            model: self.model.clone(),
            version: self.version,
            sample: sample.to_owned(),
            problem,
        }
    }

    /// Has an instance execute them, and waits for all responses. Returns a digest of what it has answered.
    pub(crate) fn run(&self, name: &str, execute: &dyn Fn(Vec<Queued>)) -> Result<u64, LoadError> {
        let mut digest = DefaultHasher::new();
        for sample in &self.samples {
            for iteration in 1..=sample.count {
                tracing::debug!(
                    model = self.model,
                    instance = name,
                    iteration,
                    "warmup sample '{}'",
                    sample.name
                );
                sample
                    .run(execute, self.is_decoupled, &mut digest)
                    .map_err(|problem| self.failed(&sample.name, problem))?;
            }
        }
        Ok(digest.finish())
    }
}

impl Sample {
    fn new(warmup: &Warmup, config: &ModelConfig, directory: &Path) -> Result<Self, String> {
        let has_batch = config.max_batch_size() > 0;
        let inputs = warmup.inputs.iter().map(|(name, given)| {
            let data =
                data(given, directory).map_err(|problem| format!("input '{name}': {problem}"))?;
            let batch: &[i64] = if has_batch { &[1] } else { &[] };
            let shape = [batch, &given.dims].concat();
            Ok(Input { name: name.clone(), data_type: given.data_type, shape, data })
        });
        let inputs: Vec<Input> = inputs.collect::<Result<_, String>>()?;
        let is_input = |input: &Input| config.inputs().iter().any(|own| own.name == input.name);
        // Inputs are checked as a client's are. Controls come from the server itself, so they are left out.
        let sent = inputs.iter().filter(|input| is_input(input)).map(copy).collect();
        fitting::check(&Request { inputs: sent, ..Request::default() }, config)
            .map_err(|failure| failure.message)?;
        Ok(Self {
            name: warmup.name.clone(),
            batch_size: warmup.batch_size,
            count: warmup.count.max(1),
            inputs,
        })
    }

    /// One execution. The error is what the model has answered.
    fn run(
        &self,
        execute: &dyn Fn(Vec<Queued>),
        is_decoupled: bool,
        digest: &mut DefaultHasher,
    ) -> Result<(), String> {
        let (sender, events) = channel::<Event>();
        let batch = (0..self.batch_size).map(|_| {
            let sender = sender.clone();
            let respond = move |event| drop(sender.send(event));
            let inputs = self.inputs.iter().map(copy).collect();
            Queued {
                request: Request { inputs, ..Request::default() },
                pending: Arc::new(Pending::new(Box::new(respond), is_decoupled)),
                size: 1,
                since: Instant::now(),
                deadline: None,
                is_stand_in: false,
            }
        });
        execute(batch.collect());
        drop(sender);
        // The channel is closed when all requests have got their last responses.
        let mut messages = Vec::new();
        for response in events.iter().filter_map(|event| event.response) {
            match response {
                Err(failure) => messages.push(failure.message),
                Ok(response) => response.outputs.iter().for_each(|output| {
                    (&output.name, &output.shape, &output.data[..]).hash(digest);
                }),
            }
        }
        messages.dedup();
        if messages.is_empty() { Ok(()) } else { Err(messages.join("; ")) }
    }
}

fn copy(input: &Input) -> Input {
    Input {
        name: input.name.clone(),
        data_type: input.data_type,
        shape: input.shape.clone(),
        data: input.data.clone(),
    }
}

fn data(input: &WarmupInput, directory: &Path) -> Result<BytesMut, String> {
    // An empty text is its length.
    let size = input.data_type.size().unwrap_or(4);
    let bytes = input.dims.iter().try_fold(size, |product, extent| {
        usize::try_from(*extent).ok().and_then(|extent| product.checked_mul(extent))
    });
    let bytes = bytes.ok_or("it has more bytes than can be counted")?;
    match &input.data {
        WarmupData::File(file) => {
            let path = directory.join(FOLDER).join(file);
            let data =
                fs::read(&path).map_err(|error| format!("reading {}: {error}", path.display()))?;
            if input.data_type == DataType::Bytes {
                return Ok(BytesMut::from(&data[..]));
            }
            let needed = data.get(..bytes).ok_or_else(|| {
                format!("it needs {bytes} bytes, and {} has {}", path.display(), data.len())
            })?;
            Ok(BytesMut::from(needed))
        }
        WarmupData::Random if input.data_type != DataType::Bytes => {
            let mut data = BytesMut::zeroed(bytes);
            fastrand::fill(&mut data);
            if input.data_type == DataType::Bool {
                data.iter_mut().for_each(|byte| *byte &= 1);
            }
            Ok(data)
        }
        WarmupData::Random | WarmupData::Zero => Ok(BytesMut::zeroed(bytes)),
    }
}
