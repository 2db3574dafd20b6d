//! Builds a case's libraries, with one directory for each compiler and linker.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use super::directives::{Case, Library};
use super::patch;

/// A compiler and a linker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Toolchain {
    pub compiler: String,
    pub linker: String,
}

impl Toolchain {
    /// Whether both are installed.
    pub(super) fn is_installed(&self) -> bool {
        answers(&self.compiler) && is_installed(&self.linker)
    }
}

/// Whether the linker that gcc knows by this name is installed.
pub(crate) fn is_installed(linker: &str) -> bool {
    match linker {
        "mold" => answers("mold"),
        other => answers(&format!("ld.{other}")),
    }
}

impl std::fmt::Display for Toolchain {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}-{}", self.compiler, self.linker)
    }
}

fn answers(program: &str) -> bool {
    static KNOWN: Mutex<Option<HashMap<String, bool>>> = Mutex::new(None);
    let mut known = KNOWN.lock().expect("no panic holds it");
    *known.get_or_insert_default().entry(program.to_owned()).or_insert_with(|| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    })
}

/// Builds the libraries of `case` under `root` unless they are there already; returns the folder.
pub(super) fn build(case: &Case, toolchain: &Toolchain, root: &Path) -> Result<PathBuf> {
    let folder = root.join(&case.name).join(toolchain.to_string());
    let headers = case.source.parent().context("a folder")?.join("../include");
    let commands: Vec<Vec<String>> = case
        .libraries
        .iter()
        .map(|library| command(case, library, toolchain, &headers))
        .collect::<Result<_>>()?;
    let stamp = stamp(case, &headers, &commands)?;
    if fs::read_to_string(folder.join("stamp")).is_ok_and(|known| known == stamp) {
        return Ok(folder);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    for (library, command) in case.libraries.iter().zip(&commands) {
        if let Some(parent) = Path::new(&library.file).parent() {
            fs::create_dir_all(folder.join(parent))?;
        }
        let output = Command::new(&command[0]).args(&command[1..]).current_dir(&folder).output()?;
        if !output.status.success() {
            bail!(
                "{} does not build:\n{}\n{}",
                library.file,
                command.join(" "),
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
    for (file, change) in &case.patches {
        patch::apply(&folder.join(file), change)
            .with_context(|| format!("patching {file}: {change}"))?;
    }
    fs::write(folder.join("stamp"), stamp)?;
    Ok(folder)
}

fn command(
    case: &Case,
    library: &Library,
    toolchain: &Toolchain,
    headers: &Path,
) -> Result<Vec<String>> {
    let extension = case.source.extension().and_then(|extension| extension.to_str());
    let compiler = match (toolchain.compiler.as_str(), extension) {
        ("gcc", Some("cc")) => "g++",
        ("clang", Some("cc")) => "clang++",
        ("gcc" | "clang", Some("c" | "S")) => &toolchain.compiler,
        (compiler, _) => bail!("no way to compile {} by {compiler}", case.source.display()),
    };
    let file_name = Path::new(&library.file).file_name().context("a name")?.to_string_lossy();
    let mut command: Vec<String> = vec![compiler.into()];
    command.extend(["-shared", "-fPIC", "-O1", "-g0", "-pthread", "-I"].map(str::to_owned));
    command.push(headers.display().to_string());
    command.push(format!("-D{}", Case::part(library)));
    command.push(format!("-fuse-ld={}", toolchain.linker));
    command.extend(["-o".to_owned(), library.file.clone()]);
    if !library.options.iter().any(|option| option.contains("-soname")) {
        command.push(format!("-Wl,-soname,{file_name}"));
    }
    if !library.options.iter().any(|option| option.contains("rpath")) {
        command.push("-Wl,-rpath,$ORIGIN".into());
    }
    command.push(case.source.canonicalize()?.display().to_string());
    if cfg!(target_arch = "aarch64")
        && case.patches.iter().any(|(_, change)| change.starts_with("phdr."))
    {
        // Patches name segments as linkers for x86-64 make them.
        command.extend(["-Wl,-z,separate-code", "-Wl,-z,max-page-size=4096"].map(str::to_owned));
    }
    // An option that names a library links against it by its soname, not by its path.
    command.push("-Wl,--no-as-needed".into());
    let ours = ["-no-soname"];
    let options = library.options.iter().filter(|option| !ours.contains(&option.as_str()));
    let include = headers.display().to_string();
    command.extend(options.map(|option| option.replace("{include}", &include)));
    if toolchain.compiler == "gcc" {
        speak_here(&mut command);
    }
    Ok(command)
}

/// Says by gcc's options for AArch64, where they differ, which code is for thread-local data. There descriptors are the default.
pub(crate) fn speak_here(command: &mut Vec<String>) {
    if cfg!(not(target_arch = "aarch64")) {
        return;
    }
    const DESCRIPTORS: &str = "-mtls-dialect=gnu2";
    match command.iter_mut().find(|option| *option == DESCRIPTORS) {
        Some(option) => *option = "-mtls-dialect=desc".into(),
        None => command.push("-mtls-dialect=trad".into()),
    }
}

/// A key of everything that determines the build.
fn stamp(case: &Case, headers: &Path, commands: &[Vec<String>]) -> Result<String> {
    let mut hash = Sha256::new();
    hash.update(fs::read(&case.source)?);
    for entry in fs::read_dir(headers)? {
        hash.update(fs::read(entry?.path())?);
    }
    hash.update(format!("{commands:?} {:?}", case.patches));
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Builds the library that gives the cases their output function under glibc.
pub(super) fn support(sources: &Path, root: &Path) -> Result<PathBuf> {
    fs::create_dir_all(root)?;
    let file = root.join("support.so");
    let status = Command::new("gcc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&file)
        .arg(sources.join("support.c"))
        .status()
        .context("gcc is needed to build the cases")?;
    ensure!(status.success(), "support.c does not build");
    Ok(file)
}
