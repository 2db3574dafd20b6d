//! The instructions of a page, from its fenced blocks.

use std::fmt;
use std::fs;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

/// Lines that the walk does not run, and why. Each is the beginning of a line of the README.
pub const LEFT_OUT: [(&str, &str); 2] = [
    ("cargo xtask lab demo", "the suite runs it in a short form, with the same set-up"),
    ("cargo xtask test", "it is the suite, which has this walk as a step"),
];

/// One thing to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A block whose first line names a file
    Write { name: String, text: String },
    /// A line for a shell
    Run(String),
    /// A line for a shell that starts a server
    Serve(String),
    /// A program for the virtual environment's Python
    Python(String),
    /// The Cargo.toml lines of a crate that depends on the checkout
    Dependency(String),
}

impl Step {
    fn of_line(line: &str) -> Self {
        let serves = ["hydrozoa run ", "hydrozoa serve "];
        match serves.iter().any(|begin| line.starts_with(begin)) {
            true => Self::Serve(line.to_owned()),
            false => Self::Run(line.to_owned()),
        }
    }

    /// The entry of [`LEFT_OUT`] that it is.
    pub fn left_out(&self) -> Option<(&'static str, &'static str)> {
        let Self::Run(line) = self else { return None };
        LEFT_OUT.into_iter().find(|(beginning, _)| line.starts_with(beginning))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { name, .. } => write!(formatter, "(writes {name})"),
            Self::Run(line) | Self::Serve(line) => write!(formatter, "$ {line}"),
            Self::Python(text) => write!(formatter, "(runs)\n{text}"),
            Self::Dependency(text) => write!(formatter, "(makes a crate with)\n{text}"),
        }
    }
}

/// The README, and the page on which it goes on.
///
/// # Errors
///
/// One of them cannot be read.
pub fn text() -> Result<String> {
    let read = |name| {
        fs::read_to_string(workspace::root().join(name)).with_context(|| format!("reading {name}"))
    };
    Ok(read("README.md")? + &read("docs/start.md")?)
}

/// A page's steps in its order.
pub struct Page {
    pub steps: Vec<Step>,
}

impl Page {
    /// Reads the blocks of a page.
    ///
    /// # Errors
    ///
    /// A block has a kind unknown to the walk, a Rust program is not an example of the runtime that another line runs, or the
    /// page lacks a line of [`LEFT_OUT`].
    pub fn parse(page: &str) -> Result<Self> {
        let mut steps = Vec::new();
        for block in page.split("```").skip(1).step_by(2) {
            let (language, text) = block.split_once('\n').context("a block has lines")?;
            match language {
                "sh" => {
                    steps.extend(text.lines().filter(|line| !line.is_empty()).map(Step::of_line))
                }
                "console" => {
                    let lines = text.lines().filter_map(|line| line.strip_prefix("$ "));
                    steps.extend(lines.map(Step::of_line));
                }
                "rust" | "rust,no_run" => is_run(page, text)?,
                "python" => steps.push(match named(text) {
                    Some(name) => Step::Write { name: name.to_owned(), text: text.to_owned() },
                    None => Step::Python(text.to_owned()),
                }),
                "toml" => steps.push(Step::Dependency(text.to_owned())),
                other => {
                    bail!("the walk does not know what to do with a block of {other:?}:\n{text}")
                }
            }
        }
        for (beginning, _) in LEFT_OUT {
            let is_it = |step: &Step| step.left_out().is_some_and(|(line, _)| line == beginning);
            ensure!(steps.iter().any(is_it), "no line of the page begins with {beginning:?}");
        }
        Ok(Self { steps })
    }
}

/// The file that a block is to be written to.
fn named(text: &str) -> Option<&str> {
    let name = text.lines().next()?.strip_prefix("# ")?;
    name.ends_with(".py").then_some(name)
}

/// Checks that a program is an example of the runtime, and that a line of the page runs that.
fn is_run(page: &str, program: &str) -> Result<()> {
    for entry in fs::read_dir(workspace::root().join("runtime/examples"))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if path.is_file() && fs::read_to_string(&path)?.ends_with(program) {
            let command = format!("--example {name}");
            ensure!(page.contains(&command), "no line of the page has {command:?}");
            return Ok(());
        }
    }
    bail!(
        "no file in runtime/examples has this program, so no line of the page runs it:\n{program}"
    );
}

/// The number before "CPU minute" in a line's comment.
pub fn stated_minutes(line: &str) -> Option<f64> {
    let (before, _) = line.split_once(" CPU minute")?;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readme() -> Page {
        Page::parse(&text().unwrap()).unwrap()
    }

    #[test]
    fn every_block_of_the_readme_is_one_that_a_newcomer_runs() {
        let steps = readme().steps;
        assert!(steps.len() > 20, "{steps:?}");
    }

    #[test]
    fn the_readme_makes_each_thing_before_it_uses_it() {
        let steps = readme().steps;
        let lines: Vec<String> = steps.iter().map(Step::to_string).collect();
        let things = [
            // (what makes it, what uses it)
            ("pip install target/dist/files", "$ hydrozoa "),
            ("python3 -m venv venv", " venv/"),
            ("python3 -m venv venv", "--venv venv"),
            ("venv/bin/pip install torch", "--venv venv"),
            ("(writes shop.py)", "hydrozoa run shop:app --venv venv "),
            ("(writes train.py)", "train"),
            ("hydrozoa package build", "mobilenet_v3.pt"),
            ("hydrozoa package build", "--example model"),
            ("pip install target/dist/files", "import hydrozoa"),
        ];
        for (maker, user) in things {
            let place = |text: &str| lines.iter().position(|line| line.contains(text));
            let made = place(maker).unwrap_or_else(|| panic!("no line has {maker:?}"));
            let used = place(user).unwrap_or_else(|| panic!("nothing uses {user:?}"));
            assert!(made <= used, "{:?} stands before {:?}", lines[used], lines[made]);
        }
    }

    #[test]
    fn the_readme_says_how_long_each_command_compiles() {
        for step in readme().steps {
            let line = step.to_string();
            let compiles = line.starts_with("$ cargo ") && step.left_out().is_none();
            assert!(!compiles || stated_minutes(&line).is_some(), "{line} states no CPU minutes");
        }
    }

    #[test]
    fn a_block_of_another_kind_is_an_error() {
        let error = Page::parse("```ruby\nputs 1\n```\n").err().unwrap().to_string();
        assert!(error.contains("\"ruby\""), "{error}");
        let error = Page::parse("```rust\nfn main() {}\n```\n").err().unwrap().to_string();
        assert!(error.contains("no file in runtime/examples"), "{error}");
        let error = Page::parse("```sh\nls\n```\n").err().unwrap().to_string();
        assert!(error.contains("\"cargo xtask lab demo\""), "{error}");
    }

    #[test]
    fn minutes_are_read_from_comments() {
        assert_eq!(
            stated_minutes("cargo run    # compiles for 1.5 CPU minutes the first time"),
            Some(1.5)
        );
        assert_eq!(stated_minutes("cargo run    # 1 CPU minute"), Some(1.0));
        assert_eq!(stated_minutes("cargo run"), None);
    }
}
