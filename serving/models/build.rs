//! Compiles the schema of configurations.

use prost_reflect::prost::Message;
use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=proto/model_config.proto");
    let descriptors =
        protox::compile(["model_config.proto"], ["proto"]).expect("the schema is well-formed");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    fs::write(folder.join("model_config.bin"), descriptors.encode_to_vec())
        .expect("OUT_DIR can be written");
}
