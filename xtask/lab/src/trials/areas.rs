//! `cargo xtask lab areas`: what programs do with torch, area by area, in four copies at once.

use anyhow::Result;

use super::{Subject, list::List};
use crate::python;

/// Options of `cargo xtask lab areas`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    run: super::Arguments,
    /// The release of torch that pip installs, with the torchvision and torchaudio that belong to it; without it the newest
    #[arg(long, value_name = "2.N", value_parser = minor, conflicts_with = "installed")]
    torch: Option<u32>,
    /// The areas of tests/areas/gpu.txt, on this machine's NVIDIA GPU
    #[arg(long)]
    gpu: bool,
}

fn minor(text: &str) -> Result<u32, String> {
    let minor = text.strip_prefix("2.").and_then(|minor| minor.parse().ok());
    minor.ok_or_else(|| "a release such as 2.11".to_owned())
}

/// Runs the rows of the list and writes the table. Returns an error if a row is not equal.
pub fn run(arguments: &Arguments) -> Result<()> {
    let python = python::find(arguments.run.environment.python.as_ref())?;
    let release = match (arguments.torch, &arguments.run.installed) {
        (Some(minor), _) => format!("torch2{minor}"),
        (None, Some(_)) => "installed".to_owned(),
        (None, None) => "newest".to_owned(),
    };
    let (list, name) =
        if arguments.gpu { (List::Gpu, "areas-gpu") } else { (List::Areas, "areas") };
    let subject = Subject {
        list,
        copies: 4,
        limit: 900.0,
        pins: arguments.torch.map(pins).unwrap_or_default(),
        entry: format!("{name}-cp3{}-{release}", python.minor),
    };
    super::run(&arguments.run, python, subject)
}

/// torchvision names the one torch that it wants. torchaudio does so up to 2.10. 2.11.1 wants a newer torch than it says, and serves those behind 2.11.
fn pins(minor: u32) -> Vec<(&'static str, String)> {
    vec![
        ("torch", format!("torch==2.{minor}.*")),
        (
            "torchaudio",
            if minor > 11 { "torchaudio".to_owned() } else { format!("torchaudio==2.{minor}.0") },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_of_torch_pins_what_belongs_to_it() {
        assert_eq!(minor("2.9"), Ok(9));
        assert!(minor("2").is_err() && minor("2.9.1").is_err());
        let pins = pins(9);
        assert_eq!(pins[0], ("torch", "torch==2.9.*".to_owned()));
        assert_eq!(pins[1], ("torchaudio", "torchaudio==2.9.0".to_owned()));
    }
}
