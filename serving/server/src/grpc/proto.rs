//! Code that the build script generates from `serving/server/proto/`.

use hydrozoa_models::{Code, Failure};
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

/// An answer of the other protocol, which is JSON, as a message of this name.
///
/// # Errors
///
/// [`Code::Internal`] if it has a field that the message lacks.
pub(super) fn message<M: prost::Message + Default>(
    name: &str,
    json: &serde_json::Value,
) -> Result<M, Failure> {
    let schema = SCHEMAS.get_message_by_name(name).expect("the schemas have it");
    let wrong = |error: &dyn std::fmt::Display| Failure::new(Code::Internal, error.to_string());
    let message = DynamicMessage::deserialize(schema, json).map_err(|error| wrong(&error))?;
    message.transcode_to().map_err(|error| wrong(&error))
}
