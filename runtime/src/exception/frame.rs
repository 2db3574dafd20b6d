//! Tracebacks as data.

use crate::Result;
use crate::object::Object;
use std::fmt;

/// One frame of a traceback.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The file's name as the code has it (`co_filename`), lone surrogates escaped. It need not be a path: `<string>`.
    pub file: String,
    /// The function's name (`co_name`); `<module>` for code outside of functions.
    pub function: String,
    /// The line that ran, from 1. `None` for code that has no lines.
    pub line: Option<u32>,
}

impl fmt::Display for Frame {
    /// As a traceback prints it: `File "orders.py", line 7, in place`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, function, line } = self;
        match line {
            Some(line) => write!(formatter, "File \"{file}\", line {line}, in {function}"),
            None => write!(formatter, "File \"{file}\", in {function}"),
        }
    }
}

/// The frames of a traceback, or of None. Reads no source file.
pub(super) fn of(traceback: Object<'_>) -> Result<Vec<Frame>> {
    let mut frames = Vec::new();
    let mut next = traceback;
    while !next.is_none() {
        let code = next.getattr("tb_frame")?.getattr("f_code")?;
        frames.push(Frame {
            file: text(&code.getattr("co_filename")?)?,
            function: text(&code.getattr("co_name")?)?,
            line: next.getattr("tb_lineno")?.extract()?,
        });
        next = next.getattr("tb_next")?;
    }
    Ok(frames)
}

/// A text, lone surrogates escaped.
pub(super) fn text(text: &Object<'_>) -> Result<String> {
    text.extract().or_else(|_| {
        let escaped = text.call_method("encode", ("utf-8", "backslashreplace"))?;
        let escaped: Vec<u8> = escaped.extract()?;
        Ok(String::from_utf8_lossy(&escaped).into_owned())
    })
}
