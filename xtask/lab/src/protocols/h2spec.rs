//! h2spec, the conformance tests of HTTP/2 and HPACK. It is a program of Go, which the machine has.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::server::Running;
use super::suite::{Tests, asked};

/// Runs all of its tests, also those of what a server should do.
pub fn run(running: &Running, program: &Path) -> Result<Tests> {
    Command::new(program).arg("--version").output().with_context(|| {
        format!("{} does not run: install h2spec, or name it by --h2spec", program.display())
    })?;
    let report = running.scratch.path().join("report.xml");
    let mut client = Command::new("sh");
    // It ends with 1 if a test fails, which the report says.
    client.args(["-c", r#""$@" || [ $? = 1 ]"#, "sh"]).arg(program);
    client.args(["--strict", "--host", "127.0.0.1", "--port", &running.port().to_string()]);
    client.arg("--junit-report").arg(&report);
    asked(&mut client, running)?;
    let report = fs::read_to_string(&report).context("the report")?;
    let tests = parse(&report);
    ensure!(!tests.is_empty(), "h2spec has run no test:\n{report}");
    Ok(tests)
}

/// The tests of a report in the form of JUnit: `<testcase package="…" classname="…" …>`, with what it holds.
fn parse(report: &str) -> Tests {
    let cases = report.split("<testcase ").skip(1);
    cases
        .filter_map(|case| {
            let (head, rest) = case.split_once('>')?;
            let (inner, _) = rest.split_once("</testcase>").unwrap_or_default();
            let name = format!("{} {}", attribute(head, "package")?, attribute(head, "classname")?);
            let result = match inner {
                inner if inner.contains("<failure") || inner.contains("<error") => {
                    let (_, actual) = inner.split_once("Actual:").unwrap_or(("", inner));
                    format!("failed: {}", actual.trim().lines().next().unwrap_or_default())
                }
                inner if inner.contains("<skipped") => "skipped".to_owned(),
                _ => "passed".to_owned(),
            };
            Some((name, result))
        })
        .collect()
}

fn attribute<'t>(head: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = head.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_tests_that_pass_fail_and_are_skipped() {
        let report = r#"<testsuite name="1" package="generic/1">
            <testcase package="generic/1" classname="One" time="0.1"></testcase>
            <testcase package="generic/1" classname="Two" time="0.1"><failure>Expected: a
Actual: b
</failure></testcase>
            <testcase package="hpack/2" classname="Three" time="0.1"><skipped></skipped></testcase>"#;
        let expected = [
            ("generic/1 One", "passed"),
            ("generic/1 Two", "failed: b"),
            ("hpack/2 Three", "skipped"),
        ];
        let tests = parse(report);
        assert!(tests.iter().map(|(test, result)| (&**test, &**result)).eq(expected));
    }
}
