//! Messages to bytes and back.

use bytes::Bytes;
use prost::Message;
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{Codec as Coding, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Encodes messages `E` and decodes messages `D`.
///
/// Bytes within a message that is read share its memory. A message that is written gets all its memory at once.
pub(super) struct Codec<E, D>(PhantomData<fn(E) -> D>);

impl<E, D> Default for Codec<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E, D> Coding for Codec<E, D>
where
    E: Message + 'static,
    D: Message + Default + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = Side<E>;
    type Decoder = Side<D>;

    fn encoder(&mut self) -> Side<E> {
        Side(PhantomData)
    }

    fn decoder(&mut self) -> Side<D> {
        Side(PhantomData)
    }
}

/// Encodes or decodes messages `M`.
pub(super) struct Side<M>(PhantomData<fn() -> M>);

impl<M: Message + 'static> Encoder for Side<M> {
    type Item = M;
    type Error = Status;

    fn encode(&mut self, message: M, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.reserve(message.encoded_len());
        message.encode(into).map_err(|error| Status::internal(error.to_string()))
    }
}

impl<M: Message + Default + 'static> Decoder for Side<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<M>, Status> {
        decode(from).map(Some)
    }
}

fn decode<M: Message + Default>(from: &mut DecodeBuf<'_>) -> Result<M, Status> {
    use bytes::Buf;
    let bytes: Bytes = from.copy_to_bytes(from.remaining());
    M::decode(bytes).map_err(|error| {
        Status::invalid_argument(format!("the request is not a message of this method: {error}"))
    })
}
