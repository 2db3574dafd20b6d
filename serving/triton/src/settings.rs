//! Settings: which Python a model's interpreters are of, and how they get inputs.

use crate::error::Result;
use hydrozoa::{Builder, Pool};
use hydrozoa_models::hosted;
use hydrozoa_models::{Code, Failure};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Settings of the backend: `--backend-config=hydrozoa,NAME=VALUE`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    venv: Option<PathBuf>,
    python: Option<PathBuf>,
}

/// Settings of Triton itself, and those of its Python backend for its processes and their shared memory.
const OTHERS: [&str; 10] = [
    "auto-complete-config",
    "backend-directory",
    "min-compute-capability",
    "default-max-batch-size",
    "shm-default-byte-size",
    "shm-growth-byte-size",
    "shm-region-prefix-name",
    "shm_message_queue_size",
    "stub-timeout-seconds",
    "thread-pool-size",
];

impl Settings {
    /// The settings in the configuration that Triton gives.
    pub(crate) fn of(config: &Value) -> Self {
        let mut settings = Self::default();
        for (name, value) in config["cmdline"].as_object().into_iter().flatten() {
            let path = || value.as_str().map(PathBuf::from);
            match name.as_str() {
                "venv" => settings.venv = path(),
                "python" => settings.python = path(),
                other if OTHERS.contains(&other) => {}
                other => tracing::warn!(
                    "the backend has no setting `{other}`; it has `venv` and `python`"
                ),
            }
        }
        settings
    }

    /// The builder of a model's interpreters. The Python is, in this order: the parameter EXECUTION_ENV_PATH of the model, the
    /// settings `venv` and `python`, and `python3` on PATH, with its virtual environment if it belongs to one.
    pub(crate) fn builder(&self, config: &Value, directory: &Path) -> Result<Builder> {
        let builder = Pool::builder();
        let environment = hosted::environment(config, directory).map_err(|problem| {
            let words = format!("parameter EXECUTION_ENV_PATH: {problem}");
            Failure::new(Code::InvalidArgument, words)
        })?;
        if let Some(environment) = environment {
            return Ok(builder.venv(environment));
        }
        Ok(match (&self.venv, &self.python) {
            (None, None) => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                match on_path(&path) {
                    Some(Found::Venv(venv)) => builder.venv(venv),
                    Some(Found::Python(python)) => builder.python(python),
                    None => builder,
                }
            }
            (venv, python) => {
                let builder = match python {
                    Some(python) => builder.python(python),
                    None => builder,
                };
                match venv {
                    Some(venv) => builder.venv(venv),
                    None => builder,
                }
            }
        })
    }
}

#[derive(Debug, PartialEq)]
enum Found {
    Venv(PathBuf),
    Python(PathBuf),
}

/// The first `python3` of these folders.
fn on_path(path: &OsStr) -> Option<Found> {
    let candidates = std::env::split_paths(path).map(|folder| folder.join("python3"));
    let python = candidates.into_iter().find(|python| python.is_file())?;
    let prefix = python.parent().and_then(Path::parent);
    match prefix.filter(|prefix| prefix.join("pyvenv.cfg").is_file()) {
        Some(prefix) => Some(Found::Venv(prefix.to_owned())),
        None => Some(Found::Python(python)),
    }
}

/// Whether a request of the model may have any number of responses.
pub(crate) fn is_decoupled(config: &Value) -> bool {
    config["model_transaction_policy"]["decoupled"].as_bool() == Some(true)
}

/// Whether a model gets inputs as arrays over Triton's memory: parameter `HYDROZOA_INPUTS`. The server owns that memory
/// again from the response on. How much of it the server keeps until a request's release differs from protocol to protocol.
pub(crate) fn lends_inputs(config: &Value) -> Result<bool> {
    let problem = match config["parameters"]["HYDROZOA_INPUTS"]["string_value"].as_str() {
        None | Some("" | "copied") => return Ok(false),
        Some("lent") if !is_decoupled(config) => return Ok(true),
        Some("lent") => "it is `lent`, and a decoupled model needs `copied`".to_owned(),
        Some(other) => format!("it is `{other}`, and may be `copied` or `lent`"),
    };
    Err(Failure::new(Code::InvalidArgument, format!("parameter HYDROZOA_INPUTS: {problem}")))
}

#[cfg(test)]
mod tests {
    use super::{Found, Settings, lends_inputs, on_path};
    use serde_json::json;
    use std::fs;

    #[test]
    fn settings_come_from_the_command_line() {
        let config = json!({"cmdline": {"venv": "/env", "auto-complete-config": "true"}});
        let expected = Settings { venv: Some("/env".into()), python: None };
        assert_eq!(Settings::of(&config), expected);
        assert_eq!(Settings::of(&json!({})), Settings::default());
    }

    #[test]
    fn the_first_python_of_path_is_found_with_its_environment() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, venv) = (folder.path().join("plain"), folder.path().join("venv"));
        for bin in [plain.join("bin"), venv.join("bin")] {
            fs::create_dir_all(&bin).unwrap();
            fs::write(bin.join("python3"), "").unwrap();
        }
        fs::write(venv.join("pyvenv.cfg"), "").unwrap();
        let path = |folders: &[&std::path::Path]| {
            std::env::join_paths(folders.iter().map(|folder| folder.join("bin"))).unwrap()
        };
        assert_eq!(
            on_path(&path(&[folder.path(), &venv, &plain])),
            Some(Found::Venv(venv.clone()))
        );
        assert_eq!(
            on_path(&path(&[&plain, &venv])),
            Some(Found::Python(plain.join("bin/python3")))
        );
        assert_eq!(on_path(&path(&[folder.path()])), None);
    }

    #[test]
    fn inputs_are_lent_if_the_model_says_so() {
        let of = |value: &str| {
            lends_inputs(&json!({"parameters": {"HYDROZOA_INPUTS": {"string_value": value}}}))
        };
        assert_eq!((lends_inputs(&json!({})), of("lent")), (Ok(false), Ok(true)));
        assert!(of("moved").unwrap_err().message.contains("`copied` or `lent`"));
        let decoupled = json!({
            "parameters": {"HYDROZOA_INPUTS": {"string_value": "lent"}},
            "model_transaction_policy": {"decoupled": true},
        });
        assert!(lends_inputs(&decoupled).unwrap_err().message.contains("needs `copied`"));
    }
}
