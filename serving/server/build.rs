//! Compiles the messages and services of the network.

use prost_reflect::prost::Message;
use std::path::{Path, PathBuf};
use std::{env, fs};

const FILES: [&str; 3] = ["grpc_service.proto", "health.proto", "model_config.proto"];

fn main() {
    for file in FILES {
        println!("cargo::rerun-if-changed=proto/{file}");
    }
    let descriptors = protox::compile(FILES, ["proto"]).expect("the schemas are well-formed");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    fs::write(folder.join("schemas.bin"), descriptors.encode_to_vec())
        .expect("OUT_DIR can be written");
    let generate = |side: &str, is_server: bool, codec: &str| {
        let out: &Path = &folder.join(side);
        fs::create_dir_all(out).expect("OUT_DIR can be written");
        tonic_prost_build::configure()
            .build_server(is_server)
            .build_client(!is_server)
            .build_transport(false)
            .bytes(".")
            .btree_map(".")
            .codec_path(codec)
            .emit_rerun_if_changed(false)
            .out_dir(out)
            .compile_fds(descriptors.clone())
            .expect("code can be made of the schemas");
    };
    generate("server", true, "crate::grpc::codec::Codec");
    // The tests are clients. They encode and decode by other means than the server.
    generate("client", false, "tonic_prost::ProstCodec");
}
