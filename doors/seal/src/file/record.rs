//! The start record, as far as a person wants to read it.

#[derive(Debug, Default)]
pub(super) struct Record {
    /// `script NAME`, `function MODULE:ATTRIBUTE` or `serve`, in words.
    pub(super) entry: Vec<String>,
    /// How many interpreters are started; `None` if the record leaves it to others.
    pub(super) copies: Option<String>,
    /// Parts of the machine that it may use.
    pub(super) allowed: Vec<String>,
}

impl Record {
    /// Fails with the rule that a record breaks.
    pub(super) fn parse(bytes: &[u8]) -> Result<Record, &'static str> {
        let text = str::from_utf8(bytes).map_err(|_| "its start record is no text")?;
        let mut lines = text.lines();
        if lines.next() != Some("format\t1") {
            return Err("its start record is of another format (use the hydrozoa that sealed it)");
        }
        let mut record = Record::default();
        for line in lines {
            let mut words = line.split('\t').map(str::to_owned);
            let kind = words.next().unwrap_or_default();
            match kind.as_str() {
                "entry" => record.entry = words.collect(),
                "copies" => record.copies = words.next(),
                "allow" => record.allowed.extend(words.next()),
                "end" => return Ok(record),
                // The start alone reads the others.
                _ => {}
            }
        }
        Err("its start record has no end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::trial;

    #[test]
    fn the_words_for_a_person_are_read() {
        let record = Record::parse(trial::RECORD.as_bytes()).unwrap();
        assert_eq!(record.entry, ["script", "main.py"]);
        assert_eq!(record.copies.as_deref(), Some("4"));
        assert_eq!(record.allowed, ["certs", "/data"]);
    }

    #[test]
    fn records_of_another_form_are_refused() {
        for text in ["", "format\t2\nend\n", "format\t1\nentry\tserve\n", "format\t1\nen"] {
            assert!(Record::parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(Record::parse(b"format\t1\n\xff\nend\n").is_err());
    }
}
