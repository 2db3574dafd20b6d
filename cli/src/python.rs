//! `hydrozoa python`.

use std::env;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::thread;

use anyhow::{Context, Result, ensure};
use hydrozoa::CommandLine;

use crate::Choice;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    choice: Choice,
    /// How many copies are started
    #[arg(long, value_name = "N", default_value = "1")]
    copies: NonZeroUsize,
    /// In which copy ARGS run: a number from 1, or `all` for all at once; the last one by default
    #[arg(long = "in", value_name = "K|all", value_parser = place)]
    place: Option<Place>,
    /// Gives each copy an environment of its own, which begins as that of the command
    #[arg(long)]
    own_environment: bool,
    /// Arguments as python takes them; HYDROZOA_COPY in os.environ is the copy's number
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

#[derive(Clone, Copy)]
enum Place {
    Copy(usize),
    All,
}

impl Options {
    /// Whether the program runs in one copy, as if it was alone in the process.
    pub fn in_one(&self) -> bool {
        self.copies.get() == 1 || !matches!(self.place, Some(Place::All))
    }
}

fn place(text: &str) -> Result<Place, String> {
    match (text, text.parse()) {
        ("all", _) => Ok(Place::All),
        (_, Ok(number)) if number > 0 => Ok(Place::Copy(number)),
        _ => Err("a number from 1, or `all`".to_owned()),
    }
}

/// Runs the program and returns its exit status. With several copies it returns the first status that is not 0.
pub fn run(options: Options) -> Result<i32> {
    let copies = options.copies.get();
    match options.place.unwrap_or(Place::Copy(copies)) {
        Place::All if copies > 1 => in_all(&options, copies),
        Place::All => in_one(&options, 1, 1),
        Place::Copy(copy) => {
            ensure!(copy <= copies, "--in {copy} is greater than --copies {copies}");
            in_one(&options, copy, copies)
        }
    }
}

fn command(options: &Options, copy: usize) -> Result<CommandLine> {
    let Choice { python, venv, torch, strict, .. } = &options.choice;
    let command = CommandLine::new(python.clone(), venv.as_deref(), &options.arguments)?
        .torch((*torch).into())
        .strict(*strict)
        .libraries(&options.choice.libraries())
        .variable("HYDROZOA_COPY", copy.to_string());
    Ok(match options.own_environment {
        true => command.environment(env::vars_os()),
        false => command,
    })
}

/// The other copies are started and idle. The program runs on the main thread, where Python expects to handle signals.
fn in_one(options: &Options, copy: usize, copies: usize) -> Result<i32> {
    let idle = if copies > 1 {
        let builder = options.choice.builder().interpreters(copies - 1);
        Some(builder.build().context("starting the other copies")?)
    } else {
        None
    };
    let status = command(options, copy)?.signal_handlers(true).run()?;
    drop(idle);
    Ok(status)
}

fn in_all(options: &Options, copies: usize) -> Result<i32> {
    let statuses = thread::scope(|scope| {
        let running = (1..=copies)
            .map(|copy| {
                let command = command(options, copy)?.shared_signals(true);
                thread::Builder::new()
                    .name(format!("copy {copy}"))
                    .spawn_scoped(scope, move || command.run())
                    .with_context(|| format!("starting a thread for copy {copy}"))
            })
            .collect::<Result<Vec<_>>>()?;
        running
            .into_iter()
            .zip(1..)
            .map(|(thread, copy)| {
                let status = thread.join().map_err(|_| anyhow::anyhow!("copy {copy} panicked"))?;
                status.with_context(|| format!("copy {copy}"))
            })
            .collect::<Result<Vec<i32>>>()
    })?;
    Ok(statuses.into_iter().find(|status| *status != 0).unwrap_or(0))
}
