//! A host of plug-ins that its users wrote: each is a Python file with an interpreter of its own, which may take a limited
//! amount of memory, and of time for each call.
//!
//! ```sh
//! cargo run --release -p hydrozoa-examples --example plugins [FOLDER]
//! ```

use hydrozoa::{Error, Pool, Result, Session};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a plug-in may take for an event.
const LIMIT: Duration = Duration::from_millis(200);

/// How much memory the Python code of a plug-in may have, in bytes.
const MEMORY: usize = 64 << 20;

struct Plugin {
    name: String,
    session: Session,
}

impl Plugin {
    /// Imports the module and gives it a function `log`.
    fn load(name: &str, session: Session) -> Result<Self> {
        let owner = name.to_owned();
        let log = session.function("log", move |session, arguments| {
            println!("[{owner}] {}", arguments.extract::<String>(0)?);
            session.none()
        })?;
        session.import(name)?.setattr("log", log)?;
        Ok(Self { name: name.to_owned(), session })
    }

    /// The plug-in's answer to an event.
    fn handle(&self, event: &str) -> Result<Option<String>> {
        self.session.with_deadline(LIMIT, || {
            self.session.import(&self.name)?.call_method("handle", (event,))?.extract()
        })
    }
}

/// Starts the plug-ins of a folder and tells each of them of an event. Returns what became of it, by their names.
pub fn run(folder: &Path, event: &str) -> Result<Vec<(String, String)>> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map_err(|source| Error::Io { path: folder.to_owned(), source })?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    let pool =
        Pool::builder().interpreters(names.len()).path(folder).memory_limit(MEMORY).build()?;
    let mut outcomes = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        // One plug-in's fault does not end the program, and no other plug-in sees it.
        let answer =
            Plugin::load(&name, pool.acquire_on(index)?).and_then(|plugin| plugin.handle(event));
        let outcome = match answer {
            Ok(Some(answer)) => answer,
            Ok(None) => "nothing to say".to_owned(),
            Err(Error::Deadline { .. }) => format!("ended after {LIMIT:?}"),
            Err(error) => format!("failed: {error}"),
        };
        outcomes.push((name, outcome));
    }
    Ok(outcomes)
}

fn main() -> Result<()> {
    let own = || concat!(env!("CARGO_MANIFEST_DIR"), "/plugins").into();
    let folder = std::env::args_os().nth(1).map_or_else(own, PathBuf::from);
    for (name, outcome) in run(&folder, "saved")? {
        println!("{name}: {outcome}");
    }
    Ok(())
}
