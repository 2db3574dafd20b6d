//! A repository of models in a folder of its own. The tests of `hydrozoa-server` have it, too.

use hydrozoa_models::{DataType, Server};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// As long as any response is waited for.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A configuration with one input and one output of floats.
pub const FLOATS: &str = r#"
max_batch_size: 8
input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
"#;

/// The same for a decoupled model.
pub fn decoupled() -> String {
    format!("{FLOATS} model_transaction_policy {{ decoupled: true }}")
}

/// A parameter of a configuration.
pub fn parameter(name: &str, value: &str) -> String {
    format!("parameters {{ key: \"HYDROZOA_{name}\" value {{ string_value: \"{value}\" }} }}\n")
}

/// A configuration and a model that blocks in C once. Another instance cannot be initialized while this file is there.
pub fn blocks(gate: &Path) -> (String, String) {
    let limit = parameter("EXECUTION_LIMIT", "0.2");
    let model = format!(
        "
import os, time

class TritonPythonModel:
    def initialize(self, args):
        if os.path.exists({gate:?}):
            raise RuntimeError('not yet')

    def execute(self, requests):
        open({gate:?}, 'w').close()
        time.sleep(20)
"
    );
    (format!("{FLOATS}{limit}"), model)
}

/// A configuration and a model that crashes at a negative number, contained, and answers with its input otherwise. Another instance
/// cannot be initialized while this file is there.
pub fn crashes(gate: &Path) -> (String, String) {
    let contained = parameter("CONTAIN_CRASHES", "true");
    let model = format!(
        "
import ctypes, os

class TritonPythonModel:
    def initialize(self, args):
        if os.path.exists({gate:?}):
            raise RuntimeError('not yet')

    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy() for request in requests]
        if any((array < 0).any() for array in arrays):
            ctypes.string_at(0)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array)]) for array in arrays]
"
    );
    (format!("{FLOATS}{contained}"), model)
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + 2 * PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} has not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A variable that `cargo xtask test` sets for the tests.
pub fn variable(name: &str) -> OsString {
    std::env::var_os(name)
        .unwrap_or_else(|| panic!("{name} is not set; `cargo xtask test` makes what it names"))
}

/// A virtual environment with numpy, and with torch for packages.
pub fn venv() -> PathBuf {
    variable("HYDROZOA_TEST_VENV").into()
}

/// The folder with the sources of packages.
pub const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/tests/packages");

/// Has plain Python write packages.
pub fn export(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new(venv().join("bin/python"));
    command.arg(format!("{SOURCES}/export.py")).arg(folder).args(arguments);
    // Nothing is left beside the sources.
    let output = command.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The file of a model, with the imports that nearly all of them have.
pub fn source(model: &str) -> String {
    let mut imports = String::new();
    if model.contains("np.") {
        imports += "import numpy as np; ";
    }
    if model.contains("pb_utils.") {
        imports += "import triton_python_backend_utils as pb_utils";
    }
    if !imports.is_empty() && !model.starts_with('\n') {
        imports.push('\n');
    }
    imports + model
}

/// Writes a version of a model into a repository.
pub fn write_model(repository: &Path, name: &str, version: i64, config: &str, model: &str) {
    let directory = repository.join(name);
    let file = directory.join(version.to_string()).join("model.py");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(directory.join("config.pbtxt"), config).unwrap();
    fs::write(file, source(model)).unwrap();
}

pub struct Repository {
    folder: tempfile::TempDir,
    pub server: Server,
}

impl Repository {
    pub fn new() -> Self {
        let (folder, venv) = (tempfile::tempdir().unwrap(), venv());
        let server = Server::new(move || hydrozoa::Pool::builder().venv(&venv));
        server.add_repository(folder.path());
        Self { folder, server }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a version of a model.
    pub fn write(&self, name: &str, version: i64, config: &str, model: &str) {
        write_model(self.path(), name, version, config, model);
    }

    /// Writes a model and loads it.
    pub fn load(&self, name: &str, config: &str, model: &str) {
        self.write(name, 1, config, model);
        self.server.load(name).unwrap_or_else(|error| panic!("{error}"));
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        self.server.unload_all();
    }
}

/// The bytes of a tensor of floats.
pub fn float_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The floats of a tensor's bytes.
pub fn floats_of(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// The types that numpy has.
pub fn numpy_types() -> impl Iterator<Item = DataType> {
    DataType::ALL.into_iter().filter(|data_type| *data_type != DataType::Bf16)
}

/// A configuration with an optional input and an output of each of these types, both with its name.
pub fn config_of(types: impl IntoIterator<Item = DataType>, dims: &str) -> String {
    let tensors = types.into_iter().map(|data_type| {
        let of = data_type.config_name();
        format!(
            "input {{ name: \"{data_type}\" data_type: {of} dims: {dims} optional: true }}
             output {{ name: \"{data_type}\" data_type: {of} dims: {dims} }}\n"
        )
    });
    tensors.collect()
}
