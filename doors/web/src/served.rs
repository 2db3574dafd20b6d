//! The requests that a worker has served, and the question for another one when they are enough.

use crate::fleet::Command;
use crate::settings::Settings;
use hydrozoa::Interpreter;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;

/// The count of a worker's requests.
pub(crate) struct Served {
    commands: Sender<Command>,
    count: AtomicU64,
    /// Requests after which another worker takes its place.
    limit: Option<u64>,
    /// Bytes that it may take.
    max_memory: Option<usize>,
    /// It takes more, and another worker is asked for.
    is_outgrown: AtomicBool,
}

impl Served {
    pub(crate) fn new(commands: &Sender<Command>, settings: &Settings) -> Self {
        let jitter = match settings.max_requests_jitter {
            0 => 0,
            most => fastrand::u64(0..=most),
        };
        Self {
            commands: commands.clone(),
            count: AtomicU64::new(0),
            limit: settings.max_requests.map(|most| most.saturating_add(jitter)),
            max_memory: settings.max_memory,
            is_outgrown: AtomicBool::new(false),
        }
    }

    /// Counts a request of this interpreter, and asks for another worker after the last one.
    pub(crate) fn count(&self, interpreter: &Interpreter) {
        let name = || interpreter.name().to_owned();
        let served = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if self.limit == Some(served) {
            // Nobody hears it where the server ends.
            drop(self.commands.send(Command::Served { interpreter: name() }));
        }
        if let Some(most) = self.max_memory {
            let taken = interpreter.memory_taken();
            if taken > most && !self.is_outgrown.swap(true, Ordering::Relaxed) {
                drop(self.commands.send(Command::Outgrown { interpreter: name(), taken }));
            }
        }
    }
}
