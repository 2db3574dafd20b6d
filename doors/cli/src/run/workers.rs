//! Options of `hydrozoa run` about workers.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use hydrozoa_web::{Lifespan, Loop, Settings};

use crate::{bytes, count, dense};

#[derive(clap::Args)]
#[command(next_help_heading = "Workers")]
pub struct Workers {
    /// Interpreters with the application; by default as many as there are processors
    #[arg(short, long, value_name = "N", value_parser = count)]
    workers: Option<NonZeroUsize>,
    /// WSGI: requests that a worker runs at once. More than 1 are for applications that wait for others, and are safe for threads
    #[arg(long, value_name = "N", value_parser = count, default_value = "1")]
    threads: NonZeroUsize,
    /// WSGI: requests that may wait for a worker; further ones get 503
    #[arg(long, value_name = "N", default_value_t = 2048)]
    max_waiting: usize,
    /// ASGI: requests that a worker runs at once; further ones get 503
    #[arg(long, value_name = "N", value_parser = count, default_value = "1000")]
    limit_concurrency: NonZeroUsize,
    /// ASGI: the event loop; `auto` is uvloop's where the application's Python has it
    #[arg(long = "loop", value_enum, value_name = "KIND", default_value_t = Runs::Auto)]
    event_loop: Runs,
    /// ASGI: whether the application has a start and an end of its own
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Takes::Auto)]
    lifespan: Takes,
    /// Seconds that a request of WSGI may take, such as 2.5: then it is interrupted, and a worker that does not react is replaced.
    /// ASGI: seconds that the application may keep its event loop. 0 for no limit
    #[arg(short, long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    timeout: Duration,
    /// Seconds that requests may still take when a worker or the server ends
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub graceful_timeout: Duration,
    /// Replace a worker after so many requests; 0 for never. The new one is ready before the old one leaves
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_requests: u64,
    /// Add up to so many to --max-requests, by chance for each worker
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_requests_jitter: u64,
    /// Replace a worker that has taken more memory than this when a request ends, such as 500M; 0 for never. The new one is ready before
    /// the old one leaves
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = bytes)]
    max_memory: usize,
    /// Make a crash in native code an error of the worker's requests, and replace the worker. Without it a crash ends the server
    #[arg(long)]
    contain_crashes: bool,
    /// Keep memory that workers do not use in files without names in this folder, which should be on a local disk; `off` keeps it in
    /// memory. The files hold copies of Python's memory, secrets included [default: $TMPDIR, else /var/tmp]
    #[arg(long, value_name = "off|DIR")]
    dense: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Takes {
    /// If it takes part
    Auto,
    /// It must
    On,
    /// It is not asked
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Runs {
    /// uvloop's where it is installed, else asyncio's
    Auto,
    /// asyncio's
    Asyncio,
    /// uvloop's
    Uvloop,
}

impl Workers {
    /// Sets what these options say. An application that is being written has one worker, in memory, unless the options ask for more.
    pub fn fill(&self, settings: &mut Settings, is_written: bool) -> Result<()> {
        let default = if is_written { 1 } else { settings.workers };
        settings.workers = self.workers.map_or(default, NonZeroUsize::get);
        settings.threads = self.threads.get();
        settings.waiting = self.max_waiting;
        settings.concurrency = self.limit_concurrency.get();
        settings.timeout = Some(self.timeout).filter(|limit| !limit.is_zero());
        settings.graceful_timeout = self.graceful_timeout;
        settings.max_requests = Some(self.max_requests).filter(|most| *most > 0);
        settings.max_requests_jitter = self.max_requests_jitter;
        settings.max_memory = Some(self.max_memory).filter(|most| *most > 0);
        settings.contain_crashes = self.contain_crashes;
        settings.event_loop = match self.event_loop {
            Runs::Auto => Loop::Auto,
            Runs::Asyncio => Loop::Asyncio,
            Runs::Uvloop => Loop::Uvloop,
        };
        settings.lifespan = match self.lifespan {
            Takes::Auto => Lifespan::Auto,
            Takes::On => Lifespan::On,
            Takes::Off => Lifespan::Off,
        };
        // Each version of the application would be written to the disk.
        let is_dense = !is_written || self.dense.is_some();
        settings.dense = if is_dense { dense::folder(self.dense.as_deref())? } else { None };
        ensure!(
            self.max_requests > 0 || self.max_requests_jitter == 0,
            "--max-requests-jitter needs --max-requests"
        );
        Ok(())
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let limit = text.parse().ok().and_then(|number| Duration::try_from_secs_f64(number).ok());
    limit.ok_or_else(|| "it is not a number of seconds, from 0".to_owned())
}
