//! Failures as statuses of gRPC.

use crate::guard::Exhausted;
use hydrozoa_models::{Code, Failure};
use tonic::Status;

/// The status of a request that may not hold more.
pub(super) fn exhausted(exhausted: Exhausted) -> Status {
    Status::resource_exhausted(exhausted.to_string())
}

/// The status of a failure, by Triton's table.
pub(super) fn status(failure: Failure) -> Status {
    let code = match failure.code {
        Code::Internal => tonic::Code::Internal,
        Code::NotFound => tonic::Code::NotFound,
        Code::InvalidArgument => tonic::Code::InvalidArgument,
        Code::Unavailable => tonic::Code::Unavailable,
        Code::Unsupported => tonic::Code::Unimplemented,
        Code::AlreadyExists => tonic::Code::AlreadyExists,
        Code::Cancelled => tonic::Code::Cancelled,
        _ => tonic::Code::Unknown,
    };
    Status::new(code, cut(failure.message))
}

/// Bytes of a message in a header, at most. Clients close a connection over headers of more than 8 KiB.
const MOST: usize = 6000;

/// The part of a message that fits a header.
fn cut(mut message: String) -> String {
    let mut size = 0;
    let end = message.bytes().position(|byte| {
        // Others are written as `%XX`.
        size += if matches!(byte, b' '..=b'~') && byte != b'%' { 1 } else { 3 };
        size > MOST
    });
    if let Some(end) = end {
        message.truncate(message.floor_char_boundary(end));
        message.push_str(" [cut]");
    }
    message
}

/// A failure because of what the request says.
pub(super) fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::{cut, status};
    use hydrozoa_models::{Code, Failure};

    #[test]
    fn codes_are_tritons() {
        for (code, expected) in [
            (Code::Unknown, tonic::Code::Unknown),
            (Code::Internal, tonic::Code::Internal),
            (Code::NotFound, tonic::Code::NotFound),
            (Code::InvalidArgument, tonic::Code::InvalidArgument),
            (Code::Unavailable, tonic::Code::Unavailable),
            (Code::Unsupported, tonic::Code::Unimplemented),
            (Code::AlreadyExists, tonic::Code::AlreadyExists),
            (Code::Cancelled, tonic::Code::Cancelled),
        ] {
            let status = status(Failure::new(code, "words"));
            assert_eq!((status.code(), status.message()), (expected, "words"));
        }
    }

    #[test]
    fn long_words_are_cut() {
        assert_eq!(cut("a".repeat(6000)), "a".repeat(6000));
        assert_eq!(cut("a".repeat(6001)), "a".repeat(6000) + " [cut]");
        // Three bytes, of which each is written as three.
        assert_eq!(cut("\u{20ac}".repeat(1000)), "\u{20ac}".repeat(666) + " [cut]");
    }
}
