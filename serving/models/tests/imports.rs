//! Models with a profile of imports, and settled ones.

mod common;

use common::{FLOATS, Repository, answer, floats, parameter, venv};
use hydrozoa_models::{Defaults, ModelImports};
use std::fs;

/// Answers whether a module is imported that nothing needs.
const MODEL: &str = "
import sys
import numpy as np
import triton_python_backend_utils as pb_utils
import unused

class TritonPythonModel:
    def execute(self, requests):
        array = np.array([float('unused' in sys.modules)], np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array.copy())]) for _ in requests]

    def later(self):
        return unused.name
";

const WARM: &str = r#"model_warmup { name: "w" batch_size: 1 inputs { key: "IN" value { data_type: TYPE_FP32 dims: 1 zero_data: true } } }"#;

fn with(parameters: &[(&str, &str)], more: &str) -> String {
    let parameters = parameters.iter().map(|(name, value)| parameter(name, value));
    format!("{FLOATS}{}{more}", parameters.collect::<String>())
}

/// The answer of a model's instance with these parameters.
fn imported(repository: &Repository, name: &str, config: &str) -> f32 {
    repository.write(name, 1, config, MODEL);
    fs::write(repository.path().join(name).join("1/unused.py"), "name = 'unused'").unwrap();
    repository.server.load(name).unwrap_or_else(|error| panic!("{error}"));
    answer(&repository.server.model(name, None).unwrap(), floats(&[0.0]))[0]
}

#[test]
fn a_recorded_model_imports_what_it_needs() {
    let repository = Repository::new();
    assert_eq!(imported(&repository, "eager", FLOATS), 1.0);
    let recorded = with(&[("IMPORTS", "recorded")], "");
    assert_eq!(imported(&repository, "recorded", &recorded), 0.0);
    // Its answer depends on the imported modules, so no profile is made.
    let depends = with(&[("IMPORTS", "recorded")], WARM);
    assert_eq!(imported(&repository, "depends", &depends), 1.0);
    let mut defaults = Defaults::default();
    defaults.imports = ModelImports::Recorded;
    repository.server.set_defaults(defaults);
    assert_eq!(imported(&repository, "default", FLOATS), 0.0);
    assert_eq!(imported(&repository, "own", &with(&[("IMPORTS", "eager")], "")), 1.0);
}

#[test]
fn a_model_imports_by_a_profile_in_a_file() {
    let repository = Repository::new();
    let builder = hydrozoa::Pool::builder().venv(venv());
    let profile = builder
        .record_imports(|pool| pool.acquire()?.import("numpy")?.getattr("float32").map(drop));
    profile.unwrap().save(repository.path().join("some.imports")).unwrap();
    let file = repository.path().join("some.imports");
    let config = with(&[("IMPORTS", &file.to_string_lossy())], "");
    // Beyond the profile is plain Python.
    assert_eq!(imported(&repository, "filed", &config), 1.0);
    repository.write("no", 1, &with(&[("IMPORTS", "no.imports")], ""), MODEL);
    let error = repository.server.load("no").unwrap_err().to_string();
    assert!(error.contains("HYDROZOA_IMPORTS") && error.contains("no.imports is not a file"));
    fs::write(repository.path().join("no/no.imports"), "nothing").unwrap();
    let error = repository.server.load("no").unwrap_err().to_string();
    assert!(error.contains("the profile of imports"), "{error}");
}

#[test]
fn a_settled_model_answers_as_before() {
    let repository = Repository::new();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let settled = with(&[("DENSE", &folder.path().to_string_lossy())], WARM);
    assert_eq!(imported(&repository, "settled", &settled), 1.0);
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let folder = folder.path().to_string_lossy().into_owned();
    assert!(maps.contains(&folder), "memory lies in a file of {folder}");
}
