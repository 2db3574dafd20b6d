//! The log of `hydrozoa serve` and `hydrozoa run`.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::path::PathBuf;
use std::{panic, thread};

use anyhow::{Context, Result};
use clap::{ArgAction, ValueEnum};
use hydrozoa_server::Log;
use tracing::level_filters::LevelFilter;

use crate::output;

#[derive(clap::Args)]
#[command(next_help_heading = "Log")]
pub struct LogOptions {
    /// 1 or more: log what helps to find faults
    #[arg(long, value_name = "N", default_value_t = 0)]
    log_verbose: u8,
    /// Log what happens
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    log_info: bool,
    /// Log warnings
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    log_warning: bool,
    /// Log errors
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    log_error: bool,
    /// The form of the log's lines
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Log to this file, not to standard error
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// The time, the level and a text, which may have several lines
    Text,
    /// An object of JSON on each line: timestamp, level, message, and fields
    Json,
}

impl LogOptions {
    /// Logs everything from now on, panics too.
    pub fn start(&self) -> Result<Log> {
        let level = match self {
            Self { log_verbose: 1.., .. } => LevelFilter::DEBUG,
            Self { log_info: true, .. } => LevelFilter::INFO,
            Self { log_warning: true, .. } => LevelFilter::WARN,
            Self { log_error: true, .. } => LevelFilter::ERROR,
            _ => LevelFilter::OFF,
        };
        let log = match &self.log_file {
            None => Log::to_standard_error().context("a log on standard error")?,
            Some(path) => {
                Log::to_file(path).with_context(|| format!("--log-file {}", path.display()))?
            }
        };
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(level).with_target(false);
        let subscriber = subscriber.with_ansi(false).with_writer(move || writer.clone());
        match self.log_format {
            LogFormat::Text => subscriber.init(),
            LogFormat::Json => {
                let subscriber = subscriber.json().flatten_event(true);
                subscriber.with_current_span(false).with_span_list(false).init();
            }
        }
        // Rust's own hook writes to standard error, and waits for its reader.
        panic::set_hook(Box::new(|panic| {
            let backtrace = Backtrace::capture();
            let thread = thread::current();
            let thread = thread.name().unwrap_or("unnamed");
            match backtrace.status() {
                BacktraceStatus::Captured => {
                    tracing::error!("the thread `{thread}` has {panic}\n{backtrace}");
                }
                _ => tracing::error!("the thread `{thread}` has {panic}"),
            }
        }));
        Ok(log)
    }

    /// Says why the server does not serve: on standard error, and in the log if that is a file.
    pub fn report(&self, log: &Log, error: &anyhow::Error) {
        if self.log_file.is_some() {
            tracing::error!("{error:#}");
            return output::complain(error);
        }
        if self.log_format == LogFormat::Json {
            return tracing::error!("{}", output::words(error).trim_end());
        }
        // A log never fails. Its lines are entries of their own here: nothing else follows.
        let mut log = log.clone();
        for line in output::words(error).lines() {
            drop(log.write_all(line.as_bytes()));
        }
    }
}
