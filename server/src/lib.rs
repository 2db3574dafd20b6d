//! Models of [`hydrozoa_serve`] over the network: the Open Inference Protocol, version 2, with the extensions and the words
//! of Triton.

#![warn(missing_docs)]

pub mod grpc;
