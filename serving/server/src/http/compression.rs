//! Compressed requests and responses.

use super::problem::Problem;
use crate::guard::Charge;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use bytes::Bytes;
use flate2::Compression;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use std::io::{self, Read, Write};

/// A way to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950, which RFC 9110 calls `deflate`.
    Deflate,
}

impl Encoding {
    pub(crate) fn name(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Encoding::Gzip => "gzip",
            Encoding::Deflate => "deflate",
        })
    }

    fn of_name(name: &str) -> Option<Option<Self>> {
        // Names have no case, and x-gzip is gzip (RFC 9110, 8.4.1).
        let is = |known: &str| name.trim().eq_ignore_ascii_case(known);
        match () {
            () if is("gzip") || is("x-gzip") => Some(Some(Encoding::Gzip)),
            () if is("deflate") => Some(Some(Encoding::Deflate)),
            () if is("identity") => Some(None),
            () => None,
        }
    }
}

/// How a request is compressed.
pub(crate) fn of_request(headers: &HeaderMap) -> Result<Option<Encoding>, Problem> {
    let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
    let encoding = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) if value.is_empty() => return Ok(None),
        (Some(value), None) => Encoding::of_name(value.to_str().unwrap_or_default()),
        (Some(_), Some(_)) => None,
    };
    encoding.ok_or_else(|| {
        let words =
            "Unsupported compression type; this server has gzip and deflate, one of them at once";
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words)
    })
}

/// The encoding that a client prefers: the one with the highest weight, of equal ones the first.
pub(crate) fn of_response(headers: &HeaderMap) -> Option<Encoding> {
    let mut best = (0.0, None);
    for value in headers.get_all(header::ACCEPT_ENCODING) {
        for offer in value.to_str().unwrap_or_default().split(',') {
            let (name, weight) = match offer.split_once(';') {
                None => (offer, Some(1.0)),
                Some((name, weight)) => {
                    (name, weight.trim().strip_prefix("q=").and_then(|weight| weight.parse().ok()))
                }
            };
            let (Some(encoding), Some(weight)) = (Encoding::of_name(name), weight) else {
                continue;
            };
            if weight > best.0 {
                best = (weight, encoding);
            }
        }
    }
    best.1
}

/// Decompresses a request that is at most `limit` bytes then. They are charged before they are there.
pub(crate) fn decompress(
    encoding: Encoding,
    compressed: &[u8],
    limit: usize,
    charge: &mut Charge,
) -> Result<Bytes, Problem> {
    let mut reader: Box<dyn Read + '_> = match encoding {
        Encoding::Gzip => Box::new(MultiGzDecoder::new(compressed)),
        Encoding::Deflate => Box::new(ZlibDecoder::new(compressed)),
    };
    let mut plain = Vec::new();
    loop {
        // A vector that grows has twice what it needs at most.
        let most = STEP.max(plain.len());
        charge.grow(most)?;
        let part = reader.by_ref().take(most as u64).read_to_end(&mut plain);
        let part = part
            .map_err(|error| Problem::bad(format!("failed to decompress the request: {error}")))?;
        if plain.len() > limit {
            return Err(Problem::too_large("the decompressed request", limit));
        }
        if part < most {
            drop(charge.split(most - part));
            return Ok(plain.into());
        }
    }
}

/// Bytes that are decompressed at first.
const STEP: usize = 64 << 10;

/// Compresses a response.
pub(crate) fn compress(encoding: Encoding, pieces: &[Bytes]) -> io::Result<Bytes> {
    fn all<W: Write>(mut writer: W, pieces: &[Bytes]) -> io::Result<W> {
        pieces.iter().try_for_each(|piece| writer.write_all(piece))?;
        Ok(writer)
    }
    let level = Compression::fast();
    let compressed = match encoding {
        Encoding::Gzip => all(GzEncoder::new(Vec::new(), level), pieces)?.finish()?,
        Encoding::Deflate => all(ZlibEncoder::new(Vec::new(), level), pieces)?.finish()?,
    };
    Ok(compressed.into())
}

#[cfg(test)]
mod tests {
    use super::{Encoding, compress, decompress, of_request, of_response};
    use crate::guard::{Budget, Exhausted};
    use axum::http::{HeaderMap, StatusCode, header};
    use bytes::Bytes;
    use std::sync::Arc;

    #[test]
    fn what_is_compressed_comes_back_within_the_limit() {
        let pieces = [Bytes::from_static(b"abc"), Bytes::from(vec![0; 1000])];
        let budget = Arc::new(Budget::new(1 << 20, 1 << 20));
        let decompress = |encoding, compressed: &[u8], limit| {
            decompress(encoding, compressed, limit, &mut budget.account(None).charge())
        };
        for encoding in [Encoding::Gzip, Encoding::Deflate] {
            let compressed = compress(encoding, &pieces).unwrap();
            assert_eq!(decompress(encoding, &compressed, 1003).unwrap().len(), 1003);
            let problem = decompress(encoding, &compressed, 1002).unwrap_err();
            assert_eq!(problem.status, StatusCode::PAYLOAD_TOO_LARGE);
            let cut = &compressed[..compressed.len() - 1];
            assert_eq!(
                decompress(encoding, cut, 1003).unwrap_err().status,
                StatusCode::BAD_REQUEST
            );
        }
    }

    #[test]
    fn what_is_decompressed_is_charged_before_it_is_there() {
        let bomb = compress(Encoding::Gzip, &[Bytes::from(vec![0; 8 << 20])]).unwrap();
        assert!(bomb.len() < 1 << 20);
        let budget = Arc::new(Budget::new(1 << 20, 1 << 20));
        let mut charge = budget.account(None).charge();
        let problem = decompress(Encoding::Gzip, &bomb, 64 << 20, &mut charge).unwrap_err();
        assert_eq!(problem.message, Exhausted::Alone(1 << 20).to_string());
        drop(charge);
        let small = compress(Encoding::Gzip, &[Bytes::from(vec![0; 300_000])]).unwrap();
        let mut charge = budget.account(None).charge();
        decompress(Encoding::Gzip, &small, 64 << 20, &mut charge).unwrap();
        // The charge equals the decompressed size.
        assert_eq!(budget.held(), 300_000);
    }

    #[test]
    fn names_of_encodings_have_no_case() {
        let of = |names: &[&str]| {
            let named = |name: &&str| (header::CONTENT_ENCODING, name.parse().unwrap());
            let headers: HeaderMap = names.iter().map(named).collect();
            of_request(&headers).map_err(|problem| problem.status)
        };
        assert_eq!(of(&["GZIP"]), Ok(Some(Encoding::Gzip)));
        assert_eq!(of(&["x-gzip"]), Ok(Some(Encoding::Gzip)));
        assert_eq!(of(&["Deflate "]), Ok(Some(Encoding::Deflate)));
        assert_eq!(of(&["Identity"]), Ok(None));
        for wrong in [&["br"][..], &["gzip, gzip"], &["gzip", "deflate"]] {
            assert_eq!(of(wrong), Err(StatusCode::UNSUPPORTED_MEDIA_TYPE), "{wrong:?}");
        }
    }

    #[test]
    fn the_encoding_that_weighs_most_is_taken() {
        for (offer, expected) in [
            ("gzip", Some(Encoding::Gzip)),
            ("deflate, gzip", Some(Encoding::Deflate)),
            ("deflate;q=0.5, gzip;q=0.8", Some(Encoding::Gzip)),
            ("gzip;q=0", None),
            ("GZip", Some(Encoding::Gzip)),
            ("identity, gzip", None),
            ("br, gzip;q=x", None),
            (",;q=1,=,", None),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, offer.parse().unwrap())]);
            assert_eq!(of_response(&headers), expected, "{offer}");
        }
    }
}
