//! All that is inside, as text.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

use super::digest;
use super::kind;
use super::manifest::ManifestEntry;
use super::open::Sealed;
use crate::member::Kind;

impl Sealed {
    /// The Python, the entry, what it may use of the machine, the sizes by kind and by package, the libraries and the
    /// licences; with `hashes`, the SHA-256 of each member and of the executable too. Sizes are in millions of bytes.
    pub fn show(&self, hashes: bool) -> String {
        let mut text = String::new();
        let written = self.write_text(&mut text, hashes);
        debug_assert!(written.is_ok(), "a string takes all that is written");
        text
    }

    fn write_text(&self, text: &mut String, hashes: bool) -> fmt::Result {
        let manifest = &self.manifest;
        let name = self.name();
        writeln!(
            text,
            "{}: a sealed application, {} MB",
            Plain(&name),
            Megabytes(self.place.length)
        )?;
        let mut line = |name: &str, value: &str| writeln!(text, "{name:<14}{}", Plain(value));
        line("sealed by", &manifest.created_by)?;
        line("Python", &manifest.python)?;
        line("starts", &self.record.entry.join(" "))?;
        line("copies", self.record.copies.as_deref().unwrap_or("1"))?;
        let allowed = self.record.allowed.join(", ");
        line("may use", if allowed.is_empty() { "nothing of the machine" } else { &allowed })?;
        line("sha256", &digest::hex(&self.place.sha256))?;
        self.write_kinds(text)?;
        self.write_distributions(text)?;
        self.write_libraries(text)?;
        if !manifest.left_out.is_empty() {
            writeln!(text, "\nleft out")?;
            manifest.left_out.iter().try_for_each(|path| writeln!(text, "  {}", Plain(path)))?;
        }
        if hashes {
            writeln!(text, "\nhashes (SHA-256)")?;
            writeln!(
                text,
                "{}  the executable, before it was sealed",
                Plain(&manifest.base.sha256)
            )?;
            for member in &manifest.members {
                let (path, kind) = (Plain(&member.path), kind::name(member.kind));
                writeln!(text, "{}  {path} ({kind})", Plain(&member.sha256))?;
            }
        }
        Ok(())
    }

    fn write_kinds(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "\n{:<32}{:>8}{:>10}", "kind", "members", "MB")?;
        let mut line = |name: &str, count: usize, length: u64| {
            writeln!(text, "{name:<32}{count:>8}{:>10}", Megabytes(length))
        };
        line("executable", 1, self.manifest.base.length)?;
        for kind in kind::ALL {
            let members = || self.manifest.members.iter().filter(|member| member.kind == kind);
            if members().next().is_some() {
                let length = members().map(|member| member.length).sum();
                line(kind::name(kind), members().count(), length)?;
            }
        }
        let manifest = self.place.manifest;
        let symbols = self.place.length - manifest.offset - manifest.length;
        line("tables and symbols", 3, self.place.record.length + manifest.length + symbols)
    }

    fn write_distributions(&self, text: &mut String) -> fmt::Result {
        if self.manifest.distributions.is_empty() {
            return Ok(());
        }
        let sizes = self.sizes();
        writeln!(text, "\n{:<24}{:<16}{:>10}  licence", "package", "version", "MB")?;
        for one in &self.manifest.distributions {
            let size = sizes.get(one.name.as_str());
            let size =
                size.map_or_else(|| "unknown".to_owned(), |size| Megabytes(*size).to_string());
            let licence = one.license.lines().next().filter(|line| !line.trim().is_empty());
            let licence = Plain(licence.unwrap_or("unknown")).to_string();
            let (name, version) = (Plain(&one.name).to_string(), Plain(&one.version).to_string());
            writeln!(text, "{name:<24}{version:<16}{size:>10}  {licence}")?;
        }
        Ok(())
    }

    fn write_libraries(&self, text: &mut String) -> fmt::Result {
        let is_library = |member: &&ManifestEntry| member.kind == Kind::Library;
        writeln!(text, "\n{:>10}  library", "MB")?;
        for library in self.manifest.members.iter().filter(is_library) {
            let (size, path) = (Megabytes(library.length).to_string(), Plain(&library.path));
            write!(text, "{size:>10}  {path}")?;
            let name = library.path.rsplit('/').next().unwrap_or_default();
            match self.manifest.system.iter().find(|system| system.soname == name) {
                Some(system) => writeln!(text, " (the machine's {})", Plain(&system.file))?,
                None => writeln!(text)?,
            }
        }
        Ok(())
    }
}

/// Text of the file, which may hold anything, without characters that command a terminal.
struct Plain<'t>(&'t str);

impl Display for Plain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: Cow<'_, str> = match self.0.contains(char::is_control) {
            false => self.0.into(),
            true => self.0.replace(char::is_control, "\u{fffd}").into(),
        };
        formatter.pad(&text)
    }
}

/// A number of bytes in millions, which is not zero for a few bytes.
struct Megabytes(u64);

impl Display for Megabytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millions = self.0 as f64 / 1e6;
        let digits = if millions < 1.0 { 3 } else { 1 };
        formatter.pad(&format!("{millions:.digits$}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::trial;

    #[test]
    fn a_person_reads_all_that_is_inside() {
        let directory = tempfile::tempdir().unwrap();
        let sealed = Sealed::open(&trial::sealed(directory.path())).unwrap();
        let text = sealed.show(false);
        for expected in [
            "app: a sealed application, 0.0",
            "Python        3.12.8\n",
            "starts        script main.py\n",
            "copies        4\n",
            "may use       certs, /data\n",
            "library                                1     0.0",
            "Numpy                   2.0                  0.0",
            "  BSD-3-Clause AND MIT\n",
            "other_one               1                  unknown  as you like it\n",
            "lib/libtrial.so (the machine's libtrial.so.1)\n",
            "left out\n  lib/python3.12/test\n",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("hashes"));
        let hashed = sealed.show(true);
        assert!(hashed.starts_with(&text));
        let hash = digest::of_bytes(b"directories");
        assert!(hashed.contains(&format!("{hash}  boot (record)\n")), "{hashed}");
    }

    #[test]
    fn a_text_cannot_command_the_terminal() {
        assert_eq!(Plain("a\u{1b}[2Jb\n").to_string(), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(Megabytes(1_234_567).to_string(), "1.2");
        assert_eq!(Megabytes(1_234).to_string(), "0.001");
    }
}
