//! Prometheus's text format, version 0.0.4.

use std::fmt::{Display, Write as _};

/// Metrics as Prometheus reads them: families, each followed by its samples.
#[derive(Debug, Default)]
pub struct PrometheusText(String);

impl PrometheusText {
    /// Begins a family. `kind` is `counter`, `gauge`, `histogram` or `summary`.
    pub fn family(&mut self, name: &str, help: &str, kind: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a String cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Adds a sample with these labels, in their order.
    pub fn sample<'a>(
        &mut self,
        name: &str,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        value: impl Display,
    ) {
        self.0.push_str(name);
        let mut opens = '{';
        for (label, text) in labels {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{opens}{label}=\"{text}\"");
            opens = ',';
        }
        let end = if opens == ',' { "}" } else { "" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    /// The text.
    pub fn into_string(self) -> String {
        self.0
    }
}
