//! One program under glibc and under the loader.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::build::LinkerFailed;
use super::model::Program;
use super::render;
use crate::cases::directives::Open;
use crate::cases::job::{Job, Mode};
use crate::cases::judge::{self, Run};

/// The result of the comparison.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Nothing differs, in this many lines of output.
    Same(usize),
    Differs(String),
    /// glibc's own loader crashes.
    OracleDies(String),
    /// The program reaches a situation that the loaders treat differently by design (docs/loader.md).
    Apart,
    /// Its linker fails on it, so there is nothing to compare.
    Unlinked(LinkerFailed),
}

/// The exit status of a run that reaches such a situation: `apart` in `tests/linker/include/random.h`.
const APART: &str = "exit status: 87";

/// Runs the program that is built in `folder`.
///
/// Domains other than one that extends the program never unload. They are compared with glibc under RTLD_NODELETE.
pub(super) fn compare(program: &Program, folder: &Path, support: &Path) -> Result<Verdict> {
    let folder = folder.canonicalize()?;
    let run = |mode: Mode, keep: bool| -> Result<Run> {
        let results = folder.join(format!("results/{mode:?}-{keep}"));
        fs::create_dir_all(&results)?;
        let environment: &[(String, String)] =
            if keep { &[("CASE_KEEP".into(), "1".into())] } else { &[] };
        let job = Job {
            mode,
            folder: folder.clone(),
            results,
            support: support.to_owned(),
            libraries: program.libraries.iter().map(|library| library.path()).collect(),
            opens: vec![Open { file: "main.so".into(), lazy: false, global: program.global }],
            steps: program.steps.len(),
            close: false,
            quick_exit: false,
            check_sharing: mode == Mode::Interleaved,
            expects_error: false,
        };
        judge::execute(environment, &job).with_context(|| format!("{mode:?}"))
    };
    let mut lines = 0;
    let beside = render::asks_others(program);
    for (keep, modes) in [(false, &[Mode::Program][..]), (true, &[Mode::One, Mode::Interleaved])] {
        if keep && beside {
            continue;
        }
        let oracle = run(Mode::Glibc, keep)?;
        if oracle.status.starts_with("signal") {
            return Ok(Verdict::OracleDies(format!("{} {}", oracle.status, oracle.stderr)));
        }
        if oracle.status == APART {
            return Ok(Verdict::Apart);
        }
        for &mode in modes {
            let ours = run(mode, keep)?;
            if let Some(difference) = difference(mode, &oracle, &ours) {
                return Ok(Verdict::Differs(format!("{mode:?}: {difference}")));
            }
            lines += ours.outputs.iter().map(|output| output.lines().count()).sum::<usize>();
        }
    }
    Ok(Verdict::Same(lines))
}

fn difference(mode: Mode, oracle: &Run, ours: &Run) -> Option<String> {
    if let (Some(wanted), Some(found)) = (&oracle.error, &ours.error) {
        let (wanted, found) = (named(wanted), named(found));
        return (wanted != found).then(|| format!("the error names `{found}`, not `{wanted}`"));
    }
    if ours.error.is_some() || ours.status != oracle.status {
        return Some(format!(
            "{}, not {}: {:?} {:?}\n{}{}",
            ours.status,
            oracle.status,
            ours.error,
            oracle.error,
            ours.stderr,
            judge::difference(&oracle.outputs[0], &ours.outputs[0])
        ));
    }
    for (copy, output) in ours.outputs.iter().enumerate() {
        if arranged(mode, output) != arranged(mode, &oracle.outputs[0]) {
            let lines = judge::difference(&oracle.outputs[0], output);
            return Some(format!("copy {copy} has another output\n{lines}"));
        }
        let (wanted, found) = (&oracle.symbols[0], &ours.symbols[copy]);
        if wanted != found {
            let lines = judge::difference(wanted, found);
            return Some(format!("in copy {copy} symbols mean something else\n{lines}"));
        }
    }
    None
}

/// The form of an output for the comparison. In a domain that extends the program, destructors at the end of the
/// process run in glibc's order. Elsewhere they run in the reverse order of the constructors, over all domains
/// (docs/loader.md).
fn arranged(mode: Mode, output: &str) -> String {
    let Some((before, after)) = output.split_once(render::END) else { return output.into() };
    let mut after: Vec<&str> = after.lines().collect();
    if mode != Mode::Program {
        after.sort_unstable();
    }
    format!("{before}{}{}", render::END, after.join("\n"))
}

/// The subject of an error: the symbol or the file.
fn named(error: &str) -> String {
    let after = |mark: &str| error.split_once(mark).map(|(_, rest)| rest.to_owned());
    let text = after("undefined symbol: ").or_else(|| after("symbol ")).unwrap_or(error.into());
    let word = text.split([',', ' ', ':', '\n']).next().unwrap_or_default();
    word.rsplit('/').next().unwrap_or_default().to_owned()
}
