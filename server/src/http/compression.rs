//! Compressed requests and responses.

use super::problem::Problem;
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
    /// RFC 1950, as RFC 9110 has `deflate`.
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
        match name.trim() {
            "gzip" => Some(Some(Encoding::Gzip)),
            "deflate" => Some(Some(Encoding::Deflate)),
            "identity" => Some(None),
            _ => None,
        }
    }
}

/// How a request is compressed.
pub(crate) fn of_request(headers: &HeaderMap) -> Result<Option<Encoding>, Problem> {
    let Some(value) = headers.get(header::CONTENT_ENCODING) else { return Ok(None) };
    match value.to_str().unwrap_or_default().trim() {
        "" if value.is_empty() => Ok(None),
        name => Encoding::of_name(name).ok_or_else(|| {
            let words = "Unsupported compression type; this server has gzip and deflate";
            Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words)
        }),
    }
}

/// How a client wants its response: what it weighs most, of equal ones the first.
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

/// Decompresses a request that is at most `limit` bytes then.
pub(crate) fn decompress(
    encoding: Encoding,
    compressed: &[u8],
    limit: usize,
) -> Result<Bytes, Problem> {
    let mut plain = Vec::new();
    let most = (limit as u64).saturating_add(1);
    let read = match encoding {
        Encoding::Gzip => MultiGzDecoder::new(compressed).take(most).read_to_end(&mut plain),
        Encoding::Deflate => ZlibDecoder::new(compressed).take(most).read_to_end(&mut plain),
    };
    read.map_err(|error| Problem::bad(format!("failed to decompress the request: {error}")))?;
    if plain.len() > limit {
        return Err(Problem::too_large("the decompressed request", limit));
    }
    Ok(plain.into())
}

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
    use super::{Encoding, compress, decompress, of_response};
    use axum::http::{HeaderMap, StatusCode, header};
    use bytes::Bytes;

    #[test]
    fn what_is_compressed_comes_back_within_the_limit() {
        let pieces = [Bytes::from_static(b"abc"), Bytes::from(vec![0; 1000])];
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
    fn the_encoding_that_weighs_most_is_taken() {
        for (offer, expected) in [
            ("gzip", Some(Encoding::Gzip)),
            ("deflate, gzip", Some(Encoding::Deflate)),
            ("deflate;q=0.5, gzip;q=0.8", Some(Encoding::Gzip)),
            ("gzip;q=0", None),
            ("identity, gzip", None),
            ("br, gzip;q=x", None),
            (",;q=1,=,", None),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, offer.parse().unwrap())]);
            assert_eq!(of_response(&headers), expected, "{offer}");
        }
    }
}
