//! Progress of long set-up: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Progress over a known number of items.
pub struct Progress {
    bar: ProgressBar,
    plain: bool,
}

impl Progress {
    /// Starts with a title; `length` items are expected.
    pub fn new(title: &str, length: u64) -> Self {
        let plain = !std::io::stderr().is_terminal();
        let bar = if plain { ProgressBar::hidden() } else { ProgressBar::new(length) };
        let style =
            ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {elapsed} {wide_msg}")
                .expect("a valid template");
        bar.set_style(style);
        bar.set_prefix(title.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        if plain {
            eprintln!("{title}");
        }
        Self { bar, plain }
    }

    /// Shows the item that is being worked on.
    pub fn item(&self, message: &str) {
        self.advance(1, message);
    }

    /// Counts `items` more items as done and shows the current step.
    pub fn advance(&self, items: u64, message: &str) {
        self.bar.inc(items);
        self.note(message);
    }

    /// Shows the current step.
    pub fn note(&self, message: &str) {
        self.bar.set_message(message.to_owned());
        if self.plain {
            eprintln!("  {message}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
