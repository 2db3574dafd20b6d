//! The start record of a sealed application: lines of words between tabs, which each start reads.

use std::ops::Range;

/// A named part of the file.
pub(crate) type Part = (String, Range<usize>);

/// The words of a start record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) minor: u8,
    /// Below the root, as all paths.
    pub(crate) libpython: String,
    pub(crate) payload: String,
    pub(crate) libraries: Vec<Part>,
    /// Names of libraries that were left out on purpose.
    pub(crate) absent: Vec<String>,
    /// Modules that Python needs before it can use the finder; `true`: a package.
    pub(crate) frozen: Vec<(Part, bool)>,
    /// The finder's dictionary.
    pub(crate) boot: Range<usize>,
    /// The table of all files by their paths.
    pub(crate) files: Range<usize>,
    pub(crate) packages: Vec<Part>,
    /// `sys.path`.
    pub(crate) paths: Vec<String>,
    pub(crate) entry: EntryPoint,
    /// How many interpreters run the entry at once.
    pub(crate) copies: usize,
    /// The parts of the machine that it may use.
    pub(crate) allowed: Vec<String>,
}

/// The use for which an application was sealed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryPoint {
    /// None: it is a Python.
    #[default]
    Python,
    /// A module that runs as `__main__`.
    Script(String),
    /// `module:function`, which is called.
    Function(String),
    /// Its packages are served.
    Serve,
}

impl Record {
    /// The record in `text`, whose parts lie in a file of `length` bytes. The error names the line that is wrong.
    pub(crate) fn parse(text: &str, length: usize) -> Result<Record, String> {
        let mut record = Record { copies: 1, ..Record::default() };
        let mut complete = false;
        for line in text.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            let wrong = || format!("its start record has the line {line:?}");
            record.add(&words, length, &mut complete).ok_or_else(wrong)?;
        }
        let has = [&record.boot, &record.files].iter().all(|part| !part.is_empty());
        match complete && has && !record.libpython.is_empty() && !record.payload.is_empty() {
            true => Ok(record),
            false => Err("its start record is not complete".to_owned()),
        }
    }

    fn add(&mut self, words: &[&str], length: usize, complete: &mut bool) -> Option<()> {
        let part = |offset: &str, size: &str| -> Option<Range<usize>> {
            let (start, size): (usize, usize) = (offset.parse().ok()?, size.parse().ok()?);
            let end = start.checked_add(size)?;
            (end <= length).then_some(start..end)
        };
        match *words {
            ["format", "1"] => {}
            ["minor", minor] => self.minor = minor.parse().ok()?,
            ["libpython", path] => self.libpython = path.to_owned(),
            ["payload", path] => self.payload = path.to_owned(),
            ["library", path, offset, size] => {
                self.libraries.push((path.to_owned(), part(offset, size)?));
            }
            ["frozen", name, package, offset, size] => {
                self.frozen.push(((name.to_owned(), part(offset, size)?), package == "1"));
            }
            ["boot", offset, size] => self.boot = part(offset, size)?,
            ["files", offset, size] => self.files = part(offset, size)?,
            ["package", path, offset, size] => {
                self.packages.push((path.to_owned(), part(offset, size)?));
            }
            ["absent", name] => self.absent.push(name.to_owned()),
            ["path", path] => self.paths.push(path.to_owned()),
            ["entry", "script", name] => self.entry = EntryPoint::Script(name.to_owned()),
            ["entry", "function", name] => self.entry = EntryPoint::Function(name.to_owned()),
            ["entry", "serve"] => self.entry = EntryPoint::Serve,
            ["copies", number] => self.copies = number.parse().ok().filter(|copies| *copies > 0)?,
            ["allow", word] => self.allowed.push(word.to_owned()),
            ["end"] => *complete = true,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "format\t1\nminor\t12\nlibpython\tlib/libpython3.12.so.1.0\n\
        payload\tlib/p.so\nlibrary\tlib/p.so\t4096\t10\nfrozen\tencodings\t1\t4200\t8\nboot\t4300\t50\nfiles\t4400\t8\npath\tapp\n\
        entry\tfunction\tm:f\ncopies\t4\nallow\ttmp\nend\n";

    #[test]
    fn a_record_is_read_line_by_line() {
        let record = Record::parse(RECORD, 5000).unwrap();
        assert_eq!(record.libraries, [("lib/p.so".to_owned(), 4096..4106)]);
        assert_eq!(record.frozen, [(("encodings".to_owned(), 4200..4208), true)]);
        assert_eq!((record.minor, record.copies, record.boot), (12, 4, 4300..4350));
        assert_eq!(record.entry, EntryPoint::Function("m:f".to_owned()));
    }

    #[test]
    fn a_damaged_record_is_refused_and_no_part_leaves_the_file() {
        for cut in 0..RECORD.len() - 1 {
            let _ = Record::parse(&RECORD[..cut], 5000).unwrap_err();
        }
        let _ = Record::parse(RECORD, 4407).unwrap_err();
        let beyond = RECORD.replace("4096\t10", "18446744073709551615\t10");
        let error = Record::parse(&beyond, 5000).unwrap_err();
        assert!(error.contains("library"), "{error}");
    }
}
