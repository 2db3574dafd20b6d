//! Bearer tokens: secrets that clients must show (RFC 6750).

use axum::http::HeaderValue;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use subtle::{ConditionallySelectable, ConstantTimeEq};

/// The tokens that a server takes. A client sends one of them in the header `Authorization: Bearer TOKEN`.
#[derive(Clone)]
pub struct Tokens(Arc<[Known]>);

/// A token, and its line.
type Known = (u32, Sum);

/// The checksum kept of a token. All have one length, so a comparison reveals nothing about a token, not even its length.
type Sum = [u8; 32];

/// Why the tokens could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read.
    #[error("reading {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not a token.
    #[error(
        "{}, line {line}: a token has letters, digits and `-._~+/=`, and nothing else", path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
    },
    /// The file has no token, so nobody could be served.
    #[error("{} has no token; each line that is not empty is one", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tokens({})", self.0.len())
    }
}

impl Tokens {
    /// The tokens of a file, one a line. Empty lines are skipped.
    ///
    /// # Errors
    ///
    /// [`TokenError`].
    pub fn load(path: &Path) -> Result<Self, TokenError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| TokenError::Read { path: path.to_owned(), source })?;
        let mut sums = Vec::new();
        for (place, line) in text.lines().enumerate() {
            let token = line.trim();
            if !token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte))
            {
                return Err(TokenError::Malformed { path: path.to_owned(), line: place + 1 });
            }
            if !token.is_empty() {
                sums.push((place as u32 + 1, sum(token.as_bytes())));
            }
        }
        match sums.is_empty() {
            true => Err(TokenError::Empty { path: path.to_owned() }),
            false => Ok(Self(sums.into())),
        }
    }

    /// Whether this header of a client holds a token.
    pub(crate) fn admit(&self, authorization: Option<&HeaderValue>) -> bool {
        self.line(authorization).is_some()
    }

    /// The line of the token that a client has sent, from 1.
    pub(crate) fn line(&self, authorization: Option<&HeaderValue>) -> Option<usize> {
        let shown = sum(bearer(authorization?.as_bytes())?);
        // All of them are compared, whichever is the right one.
        let found = self.0.iter().fold(0, |found, (line, known)| {
            u32::conditional_select(&found, line, known.ct_eq(&shown))
        });
        (found > 0).then_some(found as usize)
    }
}

fn sum(token: &[u8]) -> Sum {
    Sha256::digest(token).into()
}

/// The token of `Bearer TOKEN`. The word's case counts for nothing (RFC 9110, 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::{TokenError, Tokens};
    use axum::http::HeaderValue;
    use std::fs;

    #[test]
    fn a_token_is_a_line_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        fs::write(&path, "first-1\n\n  second~2=\r\n").unwrap();
        let tokens = Tokens::load(&path).unwrap();
        let admits = |header: &'static str| tokens.admit(Some(&HeaderValue::from_static(header)));
        for right in ["Bearer first-1", "bearer second~2=", "BEARER  first-1 "] {
            assert!(admits(right), "{right}");
        }
        for wrong in
            ["", "Bearer", "Bearer ", "Bearer first", "Bearer first-1x", "Basic first-1", "first-1"]
        {
            assert!(!admits(wrong), "{wrong}");
        }
        assert!(!tokens.admit(None));
        assert_eq!(format!("{tokens:?}"), "Tokens(2)");
    }

    #[test]
    fn a_file_without_tokens_says_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let error = Tokens::load(&path).unwrap_err();
        assert!(matches!(error, TokenError::Read { .. }));
        assert!(error.to_string().starts_with("reading "), "{error}");
        for (text, words) in [
            ("\n \n", "has no token; each line that is not empty is one"),
            ("a\nb c\n", "line 2: a token has letters, digits"),
            ("\u{e9}", "line 1: a token has letters, digits"),
        ] {
            fs::write(&path, text).unwrap();
            let error = Tokens::load(&path).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
