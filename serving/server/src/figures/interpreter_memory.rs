//! The private memory of models' interpreters, measured now and then.
//!
//! A measurement reads the process's page tables: some milliseconds for each interpreter of the process, for each interpreter
//! that is measured. So a request gets the last figures and their age, and a separate thread measures again when they are old.
//! Without requests, nothing is measured.

use crate::service::Service;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The least age at which figures are measured again.
const AGE: Duration = Duration::from_secs(10);

/// The pause after a measurement, as a multiple of its duration: measuring takes at most a twentieth of a processor.
const REST: u32 = 20;

/// A measurement.
pub(crate) struct Measured {
    pub(crate) at: Instant,
    took: Duration,
    /// Anonymous pages of the process.
    pub(crate) private: u64,
    pub(crate) proportional: u64,
    pub(crate) resident: u64,
    /// Private memory of interpreters, by model, version and position.
    of: HashMap<(String, i64, usize), u64>,
}

impl Measured {
    /// Private bytes of the interpreter of this instance.
    pub(crate) fn of(&self, model: &str, version: i64, index: usize) -> Option<u64> {
        self.of.get(&(model.to_owned(), version, index)).copied()
    }

    fn is_old(&self) -> bool {
        self.at.elapsed() >= AGE.max(self.took * REST)
    }
}

#[derive(Default)]
pub(crate) struct MemoryFigures(Mutex<Sampling>);

#[derive(Default)]
struct Sampling {
    last: Option<Arc<Measured>>,
    is_measuring: bool,
}

impl Service {
    /// The last figures, if there are any. If they are old, new ones are measured meanwhile.
    pub(crate) fn memory(&self) -> Option<Arc<Measured>> {
        let mut state = self.figures().0.lock();
        if !state.is_measuring && state.last.as_ref().is_none_or(|last| last.is_old()) {
            let service = self.clone();
            let thread = std::thread::Builder::new().name("memory".to_owned());
            match thread.spawn(move || service.measure()) {
                Ok(_) => state.is_measuring = true,
                Err(error) => tracing::warn!("the memory is not measured: {error}"),
            }
        }
        state.last.clone()
    }

    fn measure(&self) {
        let began = Instant::now();
        let mut measured = Measured {
            at: began,
            took: Duration::ZERO,
            private: 0,
            proportional: 0,
            resident: 0,
            of: HashMap::new(),
        };
        for model in self.serving(None, None) {
            let Some(pool) = model.pool() else { continue };
            for interpreter in &pool.interpreters() {
                // One reading has the process, too.
                let memory = match interpreter.memory() {
                    Ok(memory) => memory,
                    Err(error) => {
                        tracing::warn!("{}: memory: {error}", interpreter.name());
                        continue;
                    }
                };
                let bytes = |signed: i64| signed.max(0) as u64;
                measured.private = bytes(memory.process.private);
                measured.proportional = bytes(memory.process.proportional);
                measured.resident = bytes(memory.process.resident);
                let key = (model.config().name().to_owned(), model.version(), interpreter.index());
                measured.of.insert(key, memory.private());
            }
        }
        measured.took = began.elapsed();
        let mut state = self.figures().0.lock();
        state.is_measuring = false;
        // Without an interpreter nothing was measured.
        state.last = Some(measured).filter(|measured| !measured.of.is_empty()).map(Arc::new);
    }
}
