//! The lines that workers print on a terminal: whole, with the worker's number where there are several.

use std::io::{self, IsTerminal, Write, stderr, stdout};

/// Elsewhere a line is what the application prints: its reader may be a program.
pub fn streams(builder: hydrozoa::Builder, workers: usize) -> hydrozoa::Builder {
    if workers < 2 {
        return builder;
    }
    let mut builder = builder;
    if stdout().is_terminal() {
        builder = builder.stdout(|index| Box::new(Prefixed::new(index, stdout())));
    }
    if stderr().is_terminal() {
        builder = builder.stderr(|index| Box::new(Prefixed::new(index, stderr())));
    }
    builder
}

struct Prefixed<W> {
    prefix: String,
    /// The begin of a line.
    begun: Vec<u8>,
    stream: W,
}

impl<W: Write> Prefixed<W> {
    fn new(index: usize, stream: W) -> Self {
        Self { prefix: format!("[{}] ", index + 1), begun: Vec::new(), stream }
    }
}

impl<W: Write> Write for Prefixed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(bytes.len());
        };
        let rest = self.begun.split_off(end + 1);
        let mut lines = Vec::with_capacity(self.begun.len() + 16);
        for line in self.begun.split_inclusive(|byte| *byte == b'\n') {
            lines.extend_from_slice(self.prefix.as_bytes());
            lines.extend_from_slice(line);
        }
        self.begun = rest;
        self.stream.write_all(&lines)?;
        self.stream.flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl<W> Drop for Prefixed<W> {
    fn drop(&mut self) {
        // Without an end it was a prompt, or nothing.
        self.begun.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Prefixed;
    use std::io::Write;

    #[test]
    fn lines_are_whole_and_have_the_number_of_their_worker() {
        let mut written = Vec::new();
        let mut stream = Prefixed::new(1, &mut written);
        for piece in ["a", "b\nc\n", "\nd"] {
            stream.write_all(piece.as_bytes()).unwrap();
        }
        drop(stream);
        assert_eq!(String::from_utf8(written).unwrap(), "[2] ab\n[2] c\n[2] \n");
    }
}
