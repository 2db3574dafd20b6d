//! Failures as gRPC has them.

use hydrozoa_serve::{Code, Failure};
use tonic::Status;

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
    Status::new(code, failure.message)
}

/// A failure because of what the request says.
pub(super) fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::status;
    use hydrozoa_serve::{Code, Failure};

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
}
