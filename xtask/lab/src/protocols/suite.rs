//! The suites, and how each is run on a server.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::server::{Contender, Interface, Running, test_programs};
use super::{Programs, autobahn, h2spec, sources};
use crate::time_limit::{self, End};
use crate::venv;

use Contender::{Granian, Gunicorn, Hydrozoa, Hypercorn, Uvicorn};

/// How long a suite may take on a server.
const LIMIT: Duration = Duration::from_secs(900);

/// The tests of a suite with their results: `passed`, `skipped`, or `failed` with the reason.
pub type Tests = BTreeMap<String, String>;

/// A suite of tests.
pub struct Suite {
    pub name: &'static str,
    /// Where it comes from, for tables.
    pub title: &'static str,
    pub contenders: &'static [Contender],
    interface: Interface,
    kind: Kind,
}

/// How a suite runs.
enum Kind {
    /// Within the server's worker, by this module: the sources of a project have its tests.
    Inside(&'static str, &'static str),
    /// As a client of a module's application: a program beside it.
    Client(&'static str, &'static str),
    Autobahn,
    H2spec,
}

/// The suites in the order of the table.
pub const SUITES: [Suite; 9] = [
    Suite {
        name: "http1",
        title: "HTTP/1.1 byte by byte, with the forms of smuggling, to ASGI",
        contenders: &[Hydrozoa, Uvicorn, Granian],
        interface: Interface::Asgi,
        kind: Kind::Client("echo", "http1.py"),
    },
    Suite {
        name: "http1-wsgi",
        title: "the same to WSGI",
        contenders: &[Hydrozoa, Granian, Gunicorn],
        interface: Interface::Wsgi,
        kind: Kind::Client("echo", "http1.py"),
    },
    Suite {
        name: "h2spec",
        title: "h2spec, HTTP/2 by its preface, with its strict tests",
        contenders: &[Hydrozoa, Granian, Hypercorn],
        interface: Interface::Asgi,
        kind: Kind::H2spec,
    },
    Suite {
        name: "autobahn",
        title: "Autobahn's test suite of WebSockets",
        contenders: &[Hydrozoa, Uvicorn, Granian],
        interface: Interface::Asgi,
        kind: Kind::Autobahn,
    },
    Suite {
        name: "validator",
        title: "wsgiref.validate around an application of its own, Flask and Django",
        contenders: &[Hydrozoa, Granian, Gunicorn],
        interface: Interface::Wsgi,
        kind: Kind::Client("validated", "validated.py"),
    },
    Suite {
        name: "starlette",
        title: "Starlette's tests, whose client asks the server",
        contenders: &[Hydrozoa, Uvicorn, Granian],
        interface: Interface::Asgi,
        kind: Kind::Inside("live_starlette", "starlette"),
    },
    Suite {
        name: "uvicorn",
        title: "uvicorn's tests of HTTP/1.1 and WebSockets, whose bytes go to the server",
        contenders: &[Hydrozoa, Uvicorn, Granian],
        interface: Interface::Asgi,
        kind: Kind::Inside("live_uvicorn", "uvicorn"),
    },
    Suite {
        name: "django",
        title: "Django's tests of a live server, which the server is",
        contenders: &[Hydrozoa, Granian, Gunicorn],
        interface: Interface::Wsgi,
        kind: Kind::Inside("live_django", "django"),
    },
    Suite {
        name: "asgiref",
        title: "asgiref's tests in a worker",
        contenders: &[Hydrozoa, Uvicorn, Granian],
        interface: Interface::Asgi,
        kind: Kind::Inside("inside_asgiref", "asgiref"),
    },
];

/// The suite of this name.
pub fn named(name: &str) -> Result<&'static Suite, String> {
    SUITES.iter().find(|suite| suite.name == name).ok_or_else(|| {
        let names: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
        format!("one of {}", names.join(", "))
    })
}

impl Suite {
    /// Runs it on a server.
    pub fn run(&self, contender: Contender, programs: &Programs) -> Result<Tests> {
        match self.kind {
            Kind::Inside(module, project) => self.inside(contender, programs, module, project),
            Kind::Client(module, program) => {
                let running =
                    Running::start(contender, programs, module, self.interface, |_, _| vec![])?;
                let report = running.scratch.path().join("report");
                let mut client = venv::python(programs.environment.root());
                client
                    .arg(test_programs().join(program))
                    .arg(running.port().to_string())
                    .arg(&report);
                asked(&mut client, &running)?;
                let tests = read(&report)?;
                running.end()?;
                Ok(tests)
            }
            Kind::Autobahn => {
                let running =
                    Running::start(contender, programs, "echo", self.interface, |_, _| vec![])?;
                let tests = autobahn::run(&running, contender)?;
                running.end()?;
                Ok(tests)
            }
            Kind::H2spec => {
                let running =
                    Running::start(contender, programs, "echo", self.interface, |_, _| vec![])?;
                let tests = h2spec::run(&running, &programs.h2spec)?;
                running.end()?;
                Ok(tests)
            }
        }
    }

    fn inside(
        &self,
        contender: Contender,
        programs: &Programs,
        module: &str,
        project: &str,
    ) -> Result<Tests> {
        let sources = sources::of(programs.environment.base(), project)?;
        let variables = |port: u16, scratch: &Path| {
            vec![
                ("PROTOCOLS_PORT", port.to_string()),
                ("PROTOCOLS_SUITE", module.to_owned()),
                ("PROTOCOLS_SOURCES", sources.display().to_string()),
                ("PROTOCOLS_REPORT", scratch.join("report").display().to_string()),
                ("TMPDIR", scratch.display().to_string()),
            ]
        };
        let running = Running::start(contender, programs, "driver", self.interface, variables)?;
        let report = running.scratch.path().join("report");
        let begin = Instant::now();
        while !report.exists() {
            ensure!(begin.elapsed() < LIMIT, "{} is late\n{}", self.name, running.errors());
            sleep(Duration::from_millis(100));
        }
        let tests = read(&report).with_context(|| running.errors())?;
        running.end()?;
        Ok(tests)
    }
}

/// Runs a client of a server until it ends by itself.
pub fn asked(client: &mut Command, running: &Running) -> Result<()> {
    let log = running.scratch.path().join("client");
    client.current_dir(running.scratch.path());
    match time_limit::run(client, LIMIT.as_secs_f64(), &log)? {
        End::Exited(0) => Ok(()),
        end => {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            bail!("the client: {}\n{said}\n{}", end.words(), running.errors())
        }
    }
}

/// A program's report.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Report {
    Tests(Tests),
    Error(String),
}

fn read(report: &Path) -> Result<Tests> {
    let text = std::fs::read_to_string(report).context("reading the report")?;
    match serde_json::from_str(&text).context("the report")? {
        Report::Tests(tests) => Ok(tests),
        Report::Error(error) => bail!("the suite did not run:\n{error}"),
    }
}

/// Whether a result is that of a test that passes.
pub fn passes(result: &str) -> bool {
    result == "passed"
}

/// The results of a suite by server.
#[derive(Default, Serialize)]
pub struct Found(BTreeMap<Contender, Tests>);

impl Found {
    pub fn add(&mut self, contender: Contender, tests: Tests) {
        self.0.insert(contender, tests);
    }

    /// The results on a server.
    pub fn of(&self, contender: Contender) -> &Tests {
        static NONE: Tests = Tests::new();
        self.0.get(&contender).unwrap_or(&NONE)
    }

    /// How many tests pass on a server.
    pub fn passing(&self, contender: Contender) -> usize {
        self.of(contender).values().filter(|result| passes(result)).count()
    }

    /// Adds another run: a test passes that has passed once.
    pub fn join(&mut self, again: Self) {
        for (contender, tests) in again.0 {
            let all = self.0.entry(contender).or_default();
            for (test, result) in tests {
                let known = all.entry(test).or_insert_with(|| result.clone());
                if passes(&result) {
                    *known = result;
                }
            }
        }
    }

    /// The tests that pass on another server and not on `hydrozoa run`, with what they say there and where they pass.
    pub fn differences(&self) -> BTreeMap<&str, (&str, Vec<Contender>)> {
        let own = self.of(Hydrozoa);
        let mut found = BTreeMap::<&str, (&str, Vec<Contender>)>::new();
        for (&contender, tests) in &self.0 {
            for test in tests.iter().filter(|(_, result)| passes(result)).map(|(test, _)| test) {
                let result = own.get(test).map_or("it did not run", String::as_str);
                if !passes(result) {
                    found.entry(test).or_insert((result, Vec::new())).1.push(contender);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests(all: &[(&str, &str)]) -> Tests {
        all.iter().map(|(test, result)| ((*test).to_owned(), (*result).to_owned())).collect()
    }

    #[test]
    fn a_difference_is_a_test_that_passes_elsewhere_alone() {
        let mut found = Found::default();
        found.add(Hydrozoa, tests(&[("a", "passed"), ("b", "failed: why"), ("c", "failed: why")]));
        found.add(
            Uvicorn,
            tests(&[("a", "failed"), ("b", "passed"), ("c", "failed"), ("d", "passed")]),
        );
        found.add(Granian, tests(&[("b", "passed"), ("c", "skipped")]));
        let differences: Vec<_> = found.differences().into_iter().collect();
        let expected = [
            ("b", ("failed: why", vec![Uvicorn, Granian])),
            ("d", ("it did not run", vec![Uvicorn])),
        ];
        assert_eq!(differences, expected);
        let mut again = Found::default();
        again.add(Hydrozoa, tests(&[("a", "failed"), ("b", "passed")]));
        found.join(again);
        assert_eq!((found.passing(Hydrozoa), found.differences().len()), (2, 1));
    }

    #[test]
    fn a_suite_is_found_by_its_name() {
        assert!(SUITES.iter().all(|suite| named(suite.name).is_ok_and(|it| it.name == suite.name)));
        assert!(named("another").err().unwrap().starts_with("one of http1, "));
    }
}
