//! Puts an application together: collects its members, gives them places, and writes the file.

use crate::collect::{
    self, BOOT, CollectError, Collected, FILES, Program, RESOURCES, Seat, Step, Wishes,
};
use crate::file::{self, Description, Distribution, Layout, Placed, SystemLibrary};
use crate::member::{Bytes, Kind, Member};
use hydrozoa::python;
use std::env;
use std::fmt::{self, Write as _};
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};

/// The program that applications are put behind, beside the command.
const LAUNCHER: &str = "hydrozoa-launcher";

/// Seals applications: one executable file that carries a Python, its packages and its native libraries.
///
/// ```no_run
/// use hydrozoa_seal::Sealer;
///
/// let report = Sealer::new(None).venv("venv").script("shop.py").seal("shop")?;
/// println!("{} members, {} bytes", report.members, report.bytes);
/// # Ok::<(), hydrozoa_seal::SealError>(())
/// ```
#[must_use = "a sealer does nothing until `seal`"]
pub struct Sealer {
    python: Option<PathBuf>,
    base: Option<PathBuf>,
    wishes: Wishes,
    allowed: Vec<String>,
    symbols: bool,
    copies: usize,
    progress: Box<dyn Fn(&Step)>,
}

/// The findings of a seal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The Python's version, such as `3.12.8`.
    pub python: String,
    /// How many members the file has.
    pub members: usize,
    /// The length of the file.
    pub bytes: u64,
    /// Name, version and licence of Python and of each distribution. A licence may be empty.
    pub distributions: Vec<[String; 3]>,
    /// Libraries of this machine that the file carries: the needed name, and the name of the file here.
    pub system: Vec<(String, String)>,
    /// The oldest glibc that all libraries in the file work with, such as `2.28`, if one of them names a version.
    pub glibc: Option<String>,
    /// Paths of the files and directories that stay out.
    pub left_out: Vec<String>,
    /// Findings that do not prevent the seal: modules that do not compile, libraries that are missing.
    pub notes: Vec<String>,
}

/// Why an application could not be sealed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// A member could not be collected.
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// The file could not be written.
    #[error(transparent)]
    File(#[from] file::Error),
    /// A setting is wrong.
    #[error("{0}")]
    Setting(String),
}

impl From<hydrozoa::Error> for SealError {
    fn from(error: hydrozoa::Error) -> Self {
        Self::Collect(error.into())
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut described = formatter.debug_struct("Sealer");
        described.field("python", &self.python).field("wishes", &self.wishes);
        described.finish_non_exhaustive()
    }
}

impl Sealer {
    /// Seals this Python: a path or a version, as for [`hydrozoa::python::find`]. Without one, that of the virtual environment,
    /// else the best of this machine.
    pub fn new(python: Option<&Path>) -> Self {
        Self {
            python: python.map(Path::to_owned),
            base: None,
            wishes: Wishes::default(),
            allowed: Vec::new(),
            symbols: true,
            copies: 1,
            progress: Box::new(|_| ()),
        }
    }

    /// Takes the packages of a virtual environment along, but for pip, setuptools, wheel, uv and virtualenv. One of these is
    /// taken too if another package requires it.
    pub fn venv(mut self, directory: impl AsRef<Path>) -> Self {
        self.wishes.venv = Some(directory.as_ref().to_owned());
        self
    }

    /// Installs a package for the file, such as `numpy` or `numpy==2.1`, by the pip of that Python, or by uv.
    pub fn with_package(mut self, requirement: impl Into<String>) -> Self {
        self.wishes.packages.push(requirement.into());
        self
    }

    /// Takes an archive of torch.package along.
    pub fn package(mut self, file: impl AsRef<Path>) -> Self {
        self.wishes.archives.push(file.as_ref().to_owned());
        self
    }

    /// Takes a file of Python along, and runs it as the program. Files beside it are not taken ([`Sealer::app`]).
    pub fn script(mut self, file: impl AsRef<Path>) -> Self {
        self.wishes.script = Some(file.as_ref().to_owned());
        self
    }

    /// Calls the function `MODULE:FUNCTION` as the program.
    pub fn entry(mut self, entry: impl Into<String>) -> Self {
        self.wishes.entry = Some(entry.into());
        self
    }

    /// Takes all files of a directory along, whose modules then come first, but for hidden files and virtual environments.
    pub fn app(mut self, directory: impl AsRef<Path>) -> Self {
        self.wishes.directories.push(directory.as_ref().to_owned());
        self
    }

    /// Lets the application use a part of the machine: `certs`, `zone`, `tmp`, or an absolute path.
    pub fn allow(mut self, part: impl Into<String>) -> Self {
        self.allowed.push(part.into());
        self
    }

    /// Leaves out files and directories whose path matches a pattern: below the directory of the standard library, of packages
    /// or of the application (`nvidia/*`, `torch/lib/libtorch_cuda*`), or below the root (`lib/python3.12/idlelib`). `*` and `?`
    /// stand for characters other than a slash, and `**` for any directories.
    pub fn without(mut self, pattern: &str) -> Self {
        self.wishes.without.add(pattern);
        self
    }

    /// Takes along parts of the standard library that stay out otherwise ([`Sealer::left_out_by_default`]), by a pattern as
    /// for [`Sealer::without`]: `test`, `tkinter`, or `*` for all of them.
    pub fn keep(mut self, pattern: &str) -> Self {
        self.wishes.keep.add(pattern);
        self
    }

    /// The patterns of the standard library's parts that stay out by default.
    pub fn left_out_by_default() -> &'static [&'static str] {
        &collect::LEFT_OUT
    }

    /// Whether the file carries libstdc++ and libgcc_s. By default it uses those of the machine that runs it.
    pub fn carry_cxx(mut self, carry: bool) -> Self {
        self.wishes.carries_cxx = carry;
        self
    }

    /// Whether the file carries the sources of modules, the default. Some packages read their own, and tracebacks show them.
    pub fn sources(mut self, take: bool) -> Self {
        self.wishes.omits_sources = !take;
        self
    }

    /// Whether the file's table of symbols names the functions of its libraries, for perf. By default it does.
    pub fn symbols(mut self, write: bool) -> Self {
        self.symbols = write;
        self
    }

    /// How many interpreters the application has. The default is 1.
    pub fn copies(mut self, count: usize) -> Self {
        self.copies = count;
        self
    }

    /// The executable to put the parts behind. The default is `hydrozoa-launcher` beside the running program, which has no server;
    /// else, and for an application that serves, the running program.
    pub fn base(mut self, executable: impl AsRef<Path>) -> Self {
        self.base = Some(executable.as_ref().to_owned());
        self
    }

    /// Calls a function when a piece of work begins.
    pub fn progress(mut self, report: impl Fn(&Step) + 'static) -> Self {
        self.progress = Box::new(report);
        self
    }

    /// Writes the sealed application to `output`.
    ///
    /// # Errors
    ///
    /// [`SealError::Setting`] for a wrong setting, [`SealError::Collect`] if a member cannot be collected, and
    /// [`SealError::File`] if the file cannot be written.
    pub fn seal(&self, output: impl AsRef<Path>) -> Result<Report, SealError> {
        let output = output.as_ref();
        self.check()?;
        let base = match &self.base {
            Some(base) => base.clone(),
            None => self.default_base()?,
        };
        // The base is examined before the work.
        let mut layout = Layout::new(&base)?;
        let installation = python::choose(self.python.as_deref(), self.wishes.venv.as_deref())?;
        let mut collected = collect::collect(&installation, &self.wishes, &*self.progress)?;
        let placed = self.place(&mut layout, &mut collected)?;
        let record = self.start_record(&collected, &placed);
        (self.progress)(&Step::Writes(placed.len()));
        let description = describe(&collected);
        file::write(output, &base, &placed, record.as_bytes(), &description, self.symbols)?;
        let metadata = fs::metadata(output)
            .map_err(|source| CollectError::Read { path: output.to_owned(), source })?;
        Ok(Report {
            python: collected.version,
            members: placed.len(),
            bytes: metadata.len(),
            distributions: collected.distributions,
            system: collected.system,
            glibc: collected.glibc.map(|(major, minor)| format!("{major}.{minor}")),
            left_out: collected.left_out,
            notes: collected.notes,
        })
    }

    /// The launcher beside the running program. A server is in the running program itself.
    fn default_base(&self) -> Result<PathBuf, SealError> {
        let own = env::current_exe().map_err(|error| {
            SealError::Setting(format!("the running program is unknown ({error}): name a base"))
        })?;
        let launcher = own.with_file_name(LAUNCHER);
        let serves = self.wishes.script.is_none()
            && self.wishes.entry.is_none()
            && !self.wishes.archives.is_empty();
        Ok(if !serves && launcher.is_file() { launcher } else { own })
    }

    fn check(&self) -> Result<(), SealError> {
        if self.copies == 0 {
            let text = "an application needs at least one interpreter: ask for 1 or more copies";
            return Err(SealError::Setting(text.to_owned()));
        }
        let is_known = |word: &String| {
            matches!(word.as_str(), "certs" | "zone" | "tmp")
                || word.starts_with('/') && !word.contains(['\t', '\n'])
        };
        match self.allowed.iter().find(|word| !is_known(word)) {
            Some(word) => Err(SealError::Setting(format!(
                "{word:?} cannot be allowed: name certs, zone, tmp or an absolute path"
            ))),
            None => Ok(()),
        }
    }

    /// Gives all members their places: first those that are collected, then the listings, which have these places, and at last
    /// the finder's dict, which has the places of the listings.
    fn place(
        &self,
        layout: &mut Layout,
        collected: &mut Collected,
    ) -> Result<Vec<Placed>, CollectError> {
        let members = mem::take(&mut collected.members);
        let mut placed = Vec::with_capacity(members.len());
        for member in members {
            placed.push(put(layout, member)?);
        }
        let mut directories = Vec::new();
        for (directory, member) in collect::listings(collected, placed.iter().map(seat))? {
            let listing = put(layout, member)?;
            directories.push((directory, listing.offset, listing.length));
            placed.push(listing);
        }
        let files = collect::file_table(collected, placed.iter().map(seat));
        let (offset, length) = (layout.place(Kind::Record, files.length()), files.length());
        placed.push(Placed { member: collect::files(files.bytes(offset)), offset, length });
        let others = put(layout, collect::others(collected, &directories)?)?;
        let place = |one: &Placed| (one.offset, one.length);
        let resources =
            placed.iter().find(|one| one.member.path == RESOURCES).map_or((0, 0), place);
        let places = [place(&others), resources];
        placed.push(others);
        let boot = collect::boot(collected, &directories, places, &self.allowed)?;
        placed.push(put(layout, boot)?);
        Ok(placed)
    }

    /// The lines that each start reads.
    fn start_record(&self, collected: &Collected, placed: &[Placed]) -> String {
        let mut lines = vec![
            "format\t1".to_owned(),
            format!("minor\t{}", collected.minor),
            format!("libpython\t{}", collected.libpython),
            format!("payload\t{}", collected.payload),
        ];
        let of_kind = |word: &str, kind: Kind| -> Vec<String> {
            let members = placed.iter().filter(|one| one.member.kind == kind);
            let line = |one: &Placed| {
                format!("{word}\t{}\t{}\t{}", one.member.path, one.offset, one.length)
            };
            members.map(line).collect()
        };
        let at = |path: &str| placed.iter().find(|one| one.member.path == path);
        lines.extend(of_kind("library", Kind::Library));
        for module in &collected.frozen {
            if let Some(one) = at(&module.path) {
                let (name, is_package) = (&module.name, u8::from(module.is_package));
                lines.push(format!("frozen\t{name}\t{is_package}\t{}\t{}", one.offset, one.length));
            }
        }
        lines.extend(at(BOOT).map(|one| format!("boot\t{}\t{}", one.offset, one.length)));
        lines.extend(at(FILES).map(|one| format!("files\t{}\t{}", one.offset, one.length)));
        lines.extend(of_kind("package", Kind::Package));
        lines.extend(collected.absent.iter().map(|name| format!("absent\t{name}")));
        lines.extend(collected.paths.iter().map(|path| format!("path\t{path}")));
        if collected.program != Program::Python {
            lines.push(format!("entry\t{}", collected.program.words().join("\t")));
        }
        lines.push(format!("copies\t{}", self.copies));
        lines.extend(self.allowed.iter().map(|word| format!("allow\t{word}")));
        lines.push("end".to_owned());
        let mut text = String::new();
        for line in lines {
            // A String takes everything.
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

fn put(layout: &mut Layout, member: Member) -> Result<Placed, CollectError> {
    let length = match &member.bytes {
        Bytes::Memory(bytes) => bytes.len() as u64,
        Bytes::File(path) => match fs::metadata(path) {
            Ok(metadata) => metadata.len(),
            Err(source) => return Err(CollectError::Read { path: path.clone(), source }),
        },
    };
    let offset = layout.place(member.kind, length);
    Ok(Placed { member, offset, length })
}

fn seat(placed: &Placed) -> Seat<'_> {
    let Placed { member, offset, length } = placed;
    Seat { path: &member.path, kind: member.kind, offset: *offset, length: *length }
}

fn describe(collected: &Collected) -> Description {
    let distribution = |[name, version, license]: &[String; 3]| Distribution {
        name: name.clone(),
        version: version.clone(),
        license: license.clone(),
    };
    let library = |(soname, file): &(String, String)| SystemLibrary {
        soname: soname.clone(),
        file: file.clone(),
    };
    Description {
        created_by: concat!("hydrozoa ", env!("CARGO_PKG_VERSION")).to_owned(),
        python: collected.version.clone(),
        distributions: collected.distributions.iter().map(distribution).collect(),
        system: collected.system.iter().map(library).collect(),
        left_out: collected.left_out.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A program with a place for the header.
    fn base(folder: &Path) -> PathBuf {
        let (source, program) = (folder.join("base.c"), folder.join("base"));
        let place = r#"__attribute__((used)) static const unsigned char place[128] = "hydrozoa sealed application v1";"#;
        fs::write(&source, format!("{place} int main(void) {{ return 0; }}")).unwrap();
        let mut command = Command::new("cc");
        command.arg("-Wl,--build-id").arg(&source).arg("-o").arg(&program);
        assert!(command.status().unwrap().success());
        program
    }

    /// A sealer of a script, with the base.
    fn sealer(folder: &Path) -> Sealer {
        fs::write(folder.join("hello.py"), "import json\n").unwrap();
        Sealer::new(None).script(folder.join("hello.py")).base(base(folder))
    }

    #[test]
    fn two_seals_are_equal_and_the_report_says_what_is_inside() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let sealer = sealer(folder).copies(2).allow("certs").allow("/data");
        let report = sealer.seal(folder.join("one")).unwrap();
        sealer.seal(folder.join("two")).unwrap();
        let [one, two] = ["one", "two"].map(|name| fs::read(folder.join(name)).unwrap());
        assert!(one == two, "the bytes differ");
        assert_eq!(report.bytes, one.len() as u64);
        assert_eq!(report.distributions[0][0], "Python");
        assert!(report.left_out.iter().any(|path| path.ends_with("/ensurepip")));
        // Python's own extension modules need some library of the machine.
        assert!(report.system.iter().any(|(name, _)| name.starts_with("libffi.so")));
    }

    #[test]
    fn members_and_the_record_name_libraries_code_and_sources() {
        let folder = tempfile::tempdir().unwrap();
        let sealer = sealer(folder.path());
        let installation = python::find(None).unwrap();
        let mut collected = collect::collect(&installation, &sealer.wishes, &|_| ()).unwrap();
        let mut layout = Layout::new(sealer.base.as_deref().unwrap()).unwrap();
        let placed = sealer.place(&mut layout, &mut collected).unwrap();
        let library = format!("lib/python3.{}", installation.minor());
        let has = |path: &str, kind: Kind| {
            placed.iter().any(|one| one.member.path == path && one.member.kind == kind)
        };
        for path in ["app/hello.py", &format!("{library}/json/__init__.py")] {
            assert!(has(path, Kind::Code) && has(path, Kind::Source), "{path}");
        }
        assert!(has(&collected.libpython, Kind::Library) && has(&collected.payload, Kind::Library));
        assert!(!placed.iter().any(|one| one.member.path.contains("/test/")));
        let record = sealer.start_record(&collected, &placed);
        let paths: Vec<_> = record.lines().filter_map(|line| line.strip_prefix("path\t")).collect();
        assert_eq!(paths, ["app", &library, &format!("{library}/lib-dynload")]);
        for line in [
            "entry\tscript\thello",
            "copies\t1",
            "frozen\tencodings\t1\t",
            "library\tlib/",
            "boot\t",
        ] {
            assert!(record.contains(&format!("\n{line}")), "{line}");
        }
        assert!(record.starts_with("format\t1\n") && record.ends_with("\nend\n"));
    }

    #[test]
    fn sources_stay_out_on_wish() {
        let folder = tempfile::tempdir().unwrap();
        let sealer = sealer(folder.path()).sources(false);
        let installation = python::find(None).unwrap();
        let collected = collect::collect(&installation, &sealer.wishes, &|_| ()).unwrap();
        assert!(!collected.members.iter().any(|member| member.kind == Kind::Source));
        assert!(collected.members.iter().any(|member| member.kind == Kind::Code));
    }

    #[test]
    fn wrong_settings_are_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let output = folder.join("output");
        let refusal = |sealer: Sealer| sealer.seal(&output).unwrap_err().to_string();
        let text = refusal(sealer(folder).allow("network"));
        assert_eq!(
            text,
            "\"network\" cannot be allowed: name certs, zone, tmp or an absolute path"
        );
        assert!(refusal(sealer(folder).copies(0)).contains("ask for 1 or more"));
        let text = refusal(sealer(folder).entry("shop.main:run"));
        assert!(
            text.starts_with("the entry shop.main:run needs the module `shop`, which is not in"),
            "{text}"
        );
        let text =
            refusal(sealer(folder).with_package("no-such-package-of-hydrozoa @ file:///no/such"));
        assert!(
            text.starts_with("no-such-package-of-hydrozoa @ file:///no/such cannot be installed"),
            "{text}"
        );
        assert!(!output.exists());
    }
}
