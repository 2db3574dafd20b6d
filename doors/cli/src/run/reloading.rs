//! `--reload`: the workers are replaced when files of the application change.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use glob::{MatchOptions, Pattern, PatternError};
use hydrozoa_web::Reload;
use notify::event::{Event, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

/// Files that change within such a time of each other are one change: an editor's, or a checkout's.
const PAUSE: Duration = Duration::from_millis(100);

/// A change that goes on is one change no longer.
const LONGEST: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
#[command(next_help_heading = "Reloading")]
pub struct Reloading {
    /// Replace the workers when files of the application change. For the time in which it is written: there is one worker unless
    /// --workers says more, and memory stays in memory unless --dense is given
    #[arg(long)]
    reload: bool,
    /// A directory whose files are watched, with those below it. May be given several times [default: --app-dir]
    #[arg(long, value_name = "DIR", requires = "reload")]
    reload_dir: Vec<PathBuf>,
    /// Watch files of this name or path too, such as `*.html` or `templates/*.txt`, besides `*.py`. May be given several times
    #[arg(long, value_name = "PATTERN", requires = "reload")]
    reload_include: Vec<String>,
    /// Do not watch files and directories of this name or path. May be given several times. Hidden ones are watched only if
    /// --reload-include has a pattern that begins with a dot
    #[arg(long, value_name = "PATTERN", requires = "reload")]
    reload_exclude: Vec<String>,
}

impl Reloading {
    pub fn is_on(&self) -> bool {
        self.reload
    }

    /// Notes changes from now on.
    pub fn watch(&self, app_dir: &Path) -> Result<Option<Watch>> {
        if !self.reload {
            return Ok(None);
        }
        let named = match self.reload_dir.is_empty() {
            true => vec![app_dir.to_owned()],
            false => self.reload_dir.clone(),
        };
        let mut folders = Vec::new();
        for folder in named {
            ensure!(folder.is_dir(), "--reload-dir: {} is not a folder", folder.display());
            folders.push(std::path::absolute(folder).context("--reload-dir")?);
        }
        Watch::start(folders, self.chosen()?).map(Some)
    }

    fn chosen(&self) -> Result<Chosen> {
        let mut included = parse(&self.reload_include).context("--reload-include")?;
        included.push(Pattern::new("*.py")?);
        let excluded = parse(&self.reload_exclude).context("--reload-exclude")?;
        Ok(Chosen { included, excluded })
    }
}

fn parse(patterns: &[String]) -> Result<Vec<Pattern>, PatternError> {
    let texts = patterns.iter().map(|text| text.strip_suffix('/').unwrap_or(text));
    texts.map(Pattern::new).collect()
}

/// The files that count.
struct Chosen {
    included: Vec<Pattern>,
    excluded: Vec<Pattern>,
}

/// As shells have them: hidden files are for patterns that begin with a dot.
const AS_SHELLS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// Whether one of these is a pattern of the path, or, without a slash, of its name.
fn matches(patterns: &[Pattern], path: &Path) -> bool {
    let name = path.file_name().map(Path::new).unwrap_or(path);
    patterns.iter().any(|pattern| {
        let matched = if pattern.as_str().contains('/') { path } else { name };
        pattern.matches_path_with(matched, AS_SHELLS)
    })
}

impl Chosen {
    /// Whether a file counts, by its path in the watched directory.
    fn has(&self, path: &Path) -> bool {
        let is_hidden = |path: &Path| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
        };
        let is_left_out = |above: &Path| is_hidden(above) || matches(&self.excluded, above);
        !path.ancestors().skip(1).any(is_left_out)
            && !matches(&self.excluded, path)
            && matches(&self.included, path)
    }
}

/// Changes of files.
pub struct Watch {
    changed: Receiver<PathBuf>,
    watcher: RecommendedWatcher,
}

impl Watch {
    fn start(folders: Vec<PathBuf>, chosen: Chosen) -> Result<Self> {
        let (tell, changed) = channel();
        let watched = folders.clone();
        let heard = move |event: notify::Result<Event>| match event {
            Ok(event) => {
                if let Some(path) = relevant(&event, &watched, &chosen) {
                    // Nobody hears it where the server ends.
                    drop(tell.send(path));
                }
            }
            Err(error) => tracing::warn!("--reload: {error}"),
        };
        let mut watcher = notify::recommended_watcher(heard).context("--reload")?;
        for folder in &folders {
            let watched = watcher.watch(folder, RecursiveMode::Recursive);
            watched.with_context(|| format!("--reload: watching {}", folder.display()))?;
            tracing::info!("files of {} are watched (--reload)", folder.display());
        }
        Ok(Self { changed, watcher })
    }

    /// Has the workers replaced after each change.
    pub fn begin(self, reload: Reload) -> Result<()> {
        let thread = thread::Builder::new().name("reload".to_owned());
        let Self { changed, watcher } = self;
        let wait = move || {
            while let Some(path) = next(&changed) {
                tracing::info!("{} has changed", path.display());
                reload.begin_once();
            }
            drop(watcher);
        };
        thread.spawn(wait).map(drop).context("a thread for --reload")
    }
}

/// The path of a change that counts.
fn relevant(event: &Event, folders: &[PathBuf], chosen: &Chosen) -> Option<PathBuf> {
    if event.need_rescan() {
        // Some events are lost.
        return folders.first().cloned();
    }
    if let EventKind::Access(_) = event.kind {
        return None;
    }
    let counts = |path: &PathBuf| {
        let within = folders.iter().find_map(|folder| path.strip_prefix(folder).ok());
        within.is_some_and(|within| chosen.has(within))
    };
    event.paths.iter().find(|path| counts(path)).cloned()
}

/// Waits for a change, and for its end. Returns its first file.
fn next(changed: &Receiver<PathBuf>) -> Option<PathBuf> {
    let first = changed.recv().ok()?;
    let end = Instant::now() + LONGEST;
    while Instant::now() < end {
        match changed.recv_timeout(PAUSE) {
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::{Chosen, parse};
    use std::path::Path;

    #[test]
    fn patterns_choose_files_by_their_names_and_paths() {
        let patterns = |texts: &[&str]| {
            parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
        };
        let chosen = Chosen {
            included: patterns(&["*.py", "pages/**/*.html", ".env"]),
            excluded: patterns(&["venv", "test_*", "build/generated/"]),
        };
        let has = |path: &str| chosen.has(Path::new(path));
        for path in ["app.py", "shop/models.py", "pages/a/b.html", ".env", "build/app.py"] {
            assert!(has(path), "{path}");
        }
        for path in [
            "app.pyc",
            "a.html",
            ".app.py",
            ".git/hooks/a.py",
            "venv/lib/a.py",
            "shop/test_a.py",
            "build/generated/a.py",
            "shop/__pycache__/app.cpython-311.pyc",
        ] {
            assert!(!has(path), "{path}");
        }
    }
}
