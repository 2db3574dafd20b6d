//! Packages that plain Python writes, and requests to them.

use super::{Repository, as_floats, export, float_bytes};
use bytes::BytesMut;
use hydrozoa_models::{DataType, Input, Model, Request, Response};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A package that plain Python has written.
pub fn package(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
        export(&folder, &[]);
        folder
    });
    folder.join(name)
}

/// Puts a package into a repository.
pub fn put(repository: &Repository, name: &str, version: i64, config: &str, file: &Path) {
    let directory = repository.path().join(name);
    fs::create_dir_all(directory.join(version.to_string())).unwrap();
    if !config.is_empty() {
        fs::write(directory.join("config.pbtxt"), config).unwrap();
    }
    // A process that has the former file mapped keeps it.
    let new = directory.join("new");
    fs::copy(file, &new).unwrap();
    fs::rename(new, directory.join(version.to_string()).join("model.pt")).unwrap();
}

pub fn load(repository: &Repository, name: &str, config: &str) -> Arc<Model> {
    put(repository, name, 1, config, &package(&format!("{name}.pt")));
    repository.server.load(name).unwrap_or_else(|error| panic!("{error}"));
    repository.server.model(name, None).unwrap()
}

pub fn tensor(name: &str, shape: &[i64], values: &[f32]) -> Input {
    let data = BytesMut::from(&*float_bytes(values));
    Input { name: name.to_owned(), data_type: DataType::Fp32, shape: shape.to_vec(), data }
}

pub fn request(inputs: Vec<Input>) -> Request {
    Request { inputs, ..Request::default() }
}

pub fn floats(response: &Response, name: &str) -> Vec<f32> {
    as_floats(response.outputs.iter().find(|output| output.name == name).unwrap())
}

pub fn integers(response: &Response, name: &str) -> Vec<i64> {
    let output = response.outputs.iter().find(|output| output.name == name).unwrap();
    assert_eq!(output.data_type, DataType::Int64);
    output.data.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// A request as the example of `scores.pt`.
pub fn example() -> Request {
    let x: Vec<f32> = (0..6).map(|value| value as f32).collect();
    request(vec![tensor("lengths", &[2], &[1.0, 2.0]), tensor("x", &[2, 3], &x)])
}
