//! Limits of a model, and when its interpreters import: settings of a server, and parameters of models.

use crate::config::{ConfigDraft, ConfigError};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Limits and imports for models whose configuration does not set them ([`Server::set_defaults`](crate::Server::set_defaults)).
///
/// The parameters of a model have the same meaning: `HYDROZOA_EXECUTION_LIMIT`, `HYDROZOA_INITIALIZATION_LIMIT` (seconds),
/// `HYDROZOA_MEMORY_LIMIT` (bytes), `HYDROZOA_IMPORTS` (`eager`, `recorded` or a file), `HYDROZOA_DENSE` (`true`, `false` or a
/// folder), `HYDROZOA_CONTAIN_CRASHES` (`true` or `false`) and `HYDROZOA_CRASH_LIMIT` (a number).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Defaults {
    /// The longest that a model may take for a batch: its `execute`, coroutines included. Then it is interrupted, and an
    /// instance that does not react is replaced. `None` for no limit.
    pub execution_limit: Option<Duration>,
    /// The longest that each of `auto_complete_config`, `initialize` and `finalize` may take, the import of the model included, and the
    /// load of a package and its example.
    pub initialization_limit: Option<Duration>,
    /// The most memory, in bytes, that the Python code of an instance may take
    /// ([`Builder::memory_limit`](hydrozoa::Builder::memory_limit)). `None` for the limit of the server's builder.
    pub memory_limit: Option<usize>,
    /// When the interpreters of a model import. A package that carries a profile imports by it, unless this names another one.
    pub imports: ModelImports,
    /// Warm instances are settled to this folder's disk, and again while nobody uses them
    /// ([`Builder::dense`](hydrozoa::Builder::dense)).
    pub dense: Option<PathBuf>,
    /// Whether a crash of an instance's code fails its requests, and the instance is replaced
    /// ([`Builder::contain_crashes`](hydrozoa::Builder::contain_crashes)). Without it a crash ends the process, unless the server's
    /// builder contains crashes.
    pub contain_crashes: bool,
    /// How often an instance may crash in a row, each time within ten seconds of serving, before it is given up until the model is
    /// loaded again. The first restart comes at once, the next after 200 ms, and the pause doubles up to 30 s. `None` for no limit.
    /// The default is 5, systemd's limit of starts within ten seconds.
    pub crash_limit: Option<u32>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            execution_limit: None,
            initialization_limit: None,
            memory_limit: None,
            imports: ModelImports::default(),
            dense: None,
            contain_crashes: false,
            // DefaultStartLimitBurst of systemd-system.conf(5).
            crash_limit: Some(5),
        }
    }
}

/// When the interpreters of a model import modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelImports {
    /// As the server's builder says; by default as in plain Python.
    #[default]
    Eager,
    /// On the first use of a module, by a profile recorded when the model is loaded.
    Recorded,
    /// By the profile in this file.
    Profile(PathBuf),
}

const EXECUTION: &str = "HYDROZOA_EXECUTION_LIMIT";
const INITIALIZATION: &str = "HYDROZOA_INITIALIZATION_LIMIT";
const MEMORY: &str = "HYDROZOA_MEMORY_LIMIT";
const IMPORTS: &str = "HYDROZOA_IMPORTS";
const DENSE: &str = "HYDROZOA_DENSE";
const CONTAIN: &str = "HYDROZOA_CONTAIN_CRASHES";
const CRASHES: &str = "HYDROZOA_CRASH_LIMIT";

impl Defaults {
    /// These, overridden by the parameters of a model. `directory` is the model's folder.
    pub(crate) fn with(&self, draft: &ConfigDraft, directory: &Path) -> Result<Self, ConfigError> {
        let seconds = |name, default| of(draft, name, default, self::seconds);
        let path = |text: &str| {
            directory.join(text.replace("$$TRITON_MODEL_DIRECTORY", &directory.to_string_lossy()))
        };
        Ok(Self {
            execution_limit: seconds(EXECUTION, self.execution_limit)?,
            initialization_limit: seconds(INITIALIZATION, self.initialization_limit)?,
            memory_limit: of(draft, MEMORY, self.memory_limit, bytes)?,
            imports: of(draft, IMPORTS, self.imports.clone(), |text| match text {
                "eager" => Ok(ModelImports::Eager),
                "recorded" => Ok(ModelImports::Recorded),
                file if path(file).is_file() => Ok(ModelImports::Profile(path(file))),
                other => Err(format!(
                    "`{other}` is neither `eager` nor `recorded`, and {} is not a file",
                    path(other).display()
                )),
            })?,
            dense: of(draft, DENSE, self.dense.clone(), |text| match text {
                "false" => Ok(None),
                "true" => Ok(Some(self.dense.clone().unwrap_or_else(std::env::temp_dir))),
                folder if path(folder).is_dir() => Ok(Some(path(folder))),
                other => Err(format!(
                    "`{other}` is neither `true` nor `false`, and {} is not a folder",
                    path(other).display()
                )),
            })?,
            contain_crashes: of(draft, CONTAIN, self.contain_crashes, |text| match text {
                "true" => Ok(true),
                "false" => Ok(false),
                other => Err(format!("`{other}` is neither `true` nor `false`")),
            })?,
            crash_limit: of(draft, CRASHES, self.crash_limit, |text| {
                let limit: Option<u32> = text.parse().ok();
                let limit = limit.ok_or_else(|| format!("`{text}` is not a number, from 0"))?;
                Ok(Some(limit).filter(|limit| *limit > 0))
            })?,
        })
    }
}

/// A parameter of a model, or the default.
fn of<T>(
    draft: &ConfigDraft,
    name: &str,
    default: T,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, ConfigError> {
    match draft.parameter(name) {
        Some(text) => parse(text.trim()).map_err(|problem| ConfigError::parameter(name, problem)),
        None => Ok(default),
    }
}

/// 0 means unlimited.
fn seconds(text: &str) -> Result<Option<Duration>, String> {
    let limit = text.parse().ok().and_then(|number| Duration::try_from_secs_f64(number).ok());
    let limit = limit.ok_or_else(|| format!("`{text}` is not a number of seconds, from 0"))?;
    Ok(Some(limit).filter(|limit| !limit.is_zero()))
}

fn bytes(text: &str) -> Result<Option<usize>, String> {
    text.parse().map(Some).map_err(|_| format!("`{text}` is not a number of bytes, from 0"))
}

#[cfg(test)]
mod tests {
    use super::{Defaults, ModelImports};
    use crate::config::ConfigDraft;
    use std::fs;
    use std::time::Duration;

    fn with(defaults: &Defaults, parameters: &[(&str, &str)]) -> Result<Defaults, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("some.imports"), "").unwrap();
        let text: String = parameters
            .iter()
            .map(|(key, value)| {
                format!(
                    r#"parameters {{ key: "HYDROZOA_{key}" value {{ string_value: "{value}" }} }}"#
                )
            })
            .collect();
        fs::write(folder.path().join("config.pbtxt"), text).unwrap();
        let draft = ConfigDraft::of_folder(folder.path()).unwrap();
        defaults.with(&draft, folder.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn parameters_of_a_model_replace_the_defaults() {
        let defaults = Defaults {
            execution_limit: Some(Duration::from_secs(5)),
            memory_limit: Some(100),
            ..Defaults::default()
        };
        assert_eq!(with(&defaults, &[]).as_ref(), Ok(&defaults));
        let own = with(
            &defaults,
            &[
                ("EXECUTION_LIMIT", "0"),
                ("INITIALIZATION_LIMIT", "1.5"),
                ("MEMORY_LIMIT", "12"),
                ("IMPORTS", "recorded"),
                ("DENSE", "true"),
                ("CONTAIN_CRASHES", "true"),
                ("CRASH_LIMIT", "0"),
            ],
        );
        let expected = Defaults {
            execution_limit: None,
            initialization_limit: Some(Duration::from_millis(1500)),
            memory_limit: Some(12),
            imports: ModelImports::Recorded,
            dense: Some(std::env::temp_dir()),
            contain_crashes: true,
            crash_limit: None,
        };
        assert_eq!(own, Ok(expected));
        let own = with(&defaults, &[("IMPORTS", "some.imports"), ("DENSE", "/proc")]).unwrap();
        assert!(
            matches!(own.imports, ModelImports::Profile(path) if path.ends_with("some.imports"))
        );
        assert_eq!(own.dense, Some("/proc".into()));
    }

    #[test]
    fn a_parameter_that_makes_no_sense_is_named() {
        for (name, value, words) in [
            ("EXECUTION_LIMIT", "-1", "`-1` is not a number of seconds"),
            ("EXECUTION_LIMIT", "nan", "`nan` is not a number of seconds"),
            ("INITIALIZATION_LIMIT", "1e300", "`1e300` is not a number of seconds"),
            ("MEMORY_LIMIT", "1 GB", "`1 GB` is not a number of bytes"),
            ("IMPORTS", "absent.imports", "absent.imports is not a file"),
            ("DENSE", "yes", "neither `true` nor `false`"),
            ("CONTAIN_CRASHES", "1", "`1` is neither `true` nor `false`"),
            ("CRASH_LIMIT", "-1", "`-1` is not a number, from 0"),
        ] {
            let error = with(&Defaults::default(), &[(name, value)]).unwrap_err();
            assert!(error.contains(words) && error.contains(name), "{error}");
        }
    }
}
