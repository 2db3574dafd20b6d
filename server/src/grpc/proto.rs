//! Code that the build script has made of `server/proto/`.

use prost_reflect::{DescriptorPool, DynamicMessage};
use std::sync::LazyLock;

/// The protocol's messages and its service.
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    missing_docs,
    dead_code,
    reason = "the code is generated"
)]
pub(super) mod inference {
    tonic::include_proto!("server/inference");
}

/// The state of a server.
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    missing_docs,
    dead_code,
    reason = "the code is generated"
)]
pub(super) mod health {
    tonic::include_proto!("server/grpc.health.v1");
}

static SCHEMAS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let descriptors = include_bytes!(concat!(env!("OUT_DIR"), "/schemas.bin"));
    DescriptorPool::decode(descriptors.as_slice()).expect("the build script has made it")
});

/// A model's configuration as a message.
///
/// # Errors
///
/// A text if the configuration has a field that the message lacks.
pub(super) fn model_config(
    config: &hydrozoa_serve::config::ModelConfig,
) -> Result<inference::ModelConfig, String> {
    let schema = SCHEMAS.get_message_by_name("inference.ModelConfig").expect("the schemas have it");
    let message =
        DynamicMessage::deserialize(schema, config.json()).map_err(|error| error.to_string())?;
    message.transcode_to().map_err(|error| error.to_string())
}
