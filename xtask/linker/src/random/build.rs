//! Compiles and links the libraries of a program.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::model::*;
use super::render;
use crate::cases::{is_installed, speak_here};

/// The version script of libraries with versions.
const VERSIONS: &str = "V1 { };\nV2 { } V1;\n";

/// The exit status of timeout(1) after a timeout.
const TIMED_OUT: i32 = 124;

/// The linker of a library that compiles fails. mold and gold do so on a few programs.
#[derive(Debug, thiserror::Error)]
#[error("{linker} does not link {output}: {message}")]
pub(super) struct LinkerFailed {
    linker: &'static str,
    output: String,
    message: String,
}

/// Builds the program in `folder`, which is empty.
///
/// # Errors
/// [`LinkerFailed`] if a linker fails.
pub(super) fn build(program: &Program, folder: &Path, headers: &Path) -> Result<()> {
    fs::write(folder.join("versions.map"), VERSIONS)?;
    // The binding of functions at their first call is not compared; see `draw`.
    let lazy = program
        .libraries
        .iter()
        .any(|library| library.opens.as_ref().is_some_and(|(_, mode, _)| mode.lazy))
        || program
            .steps
            .iter()
            .flatten()
            .any(|act| matches!(&act.operation, Operation::Open { mode, .. } if mode.lazy));
    for library in &program.libraries {
        let stem = library.stem();
        fs::write(folder.join(format!("{stem}.c")), render::source(program, library))?;
        let mut options: Vec<&str> = vec!["-c", "-fPIC", "-O1", "-g0", "-w", "-pipe", "-I"];
        let headers = headers.display().to_string();
        options.push(&headers);
        if lazy {
            options.push("-fno-plt");
        }
        options.extend(library.link.options.iter().filter(|option| !option.starts_with("-Wl")));
        let (source, object) = (format!("{stem}.c"), format!("{stem}.o"));
        options.extend(["-o", &object, &source]);
        let mut options = options.into_iter().map(str::to_owned).collect();
        speak_here(&mut options);
        gcc(folder, &options)?;
    }
    // A library is linked against its needs. If a need is not built yet (a cycle), it is linked against a library of
    // the same name without needs.
    for library in program.libraries.iter().rev() {
        for need in library.needs.iter().filter_map(|&need| program.library(need)) {
            if !folder.join(need.path()).exists() {
                let stub = Library { needs: Vec::new(), needs_absent: false, ..need.clone() };
                link(program, &stub, &format!("stub-{}", need.file()), folder)?;
            }
        }
        link(program, library, &library.path(), folder)?;
    }
    Ok(())
}

fn link(program: &Program, library: &Library, output: &str, folder: &Path) -> Result<()> {
    if let Some(parent) = Path::new(output).parent() {
        fs::create_dir_all(folder.join(parent))?;
    }
    let stem = library.stem();
    let Link { linker, hash, options, symbolic, now, stays, search, versioned } = &library.link;
    let mut command: Vec<String> = vec!["-shared".into(), "-o".into(), output.into()];
    let linker = linker_at_hand(linker);
    command.push(format!("-fuse-ld={linker}"));
    command.push(format!("{stem}.o"));
    command.push(format!("-Wl,-soname,{}", library.file()));
    command.push(format!("-Wl,--hash-style={hash}"));
    command.extend(options.iter().filter(|o| o.starts_with("-Wl")).map(|&o| o.to_owned()));
    // glibc uses the unique definition that was looked up first; our loader uses the one that was loaded first. With
    // DT_SYMBOLIC these need not be the same.
    let has_unique = library.definitions.iter().any(|d| matches!(d.name, Name::Unique(_)));
    command.extend(symbolic.iter().filter(|_| !has_unique).map(|&option| option.to_owned()));
    // The linkers of some distributions choose one of the two by default.
    command.push(if *now { "-Wl,-z,now" } else { "-Wl,-z,lazy" }.into());
    if *stays {
        command.push("-Wl,-z,nodelete".into());
    }
    if *versioned {
        command.push("-Wl,--version-script=versions.map".into());
    }
    let up = if library.folder.is_empty() { "$ORIGIN" } else { "$ORIGIN/.." };
    let folders = format!("-Wl,-rpath,{up}:{up}/a:{up}/b");
    match search {
        Search::Runpath => command.extend([folders, "-Wl,--enable-new-dtags".into()]),
        Search::Rpath => command.extend([folders, "-Wl,--disable-new-dtags".into()]),
        Search::Nothing => {}
    }
    command.push("-Wl,--no-as-needed".into());
    for need in library.needs.iter().filter_map(|&need| program.library(need)) {
        let built = need.path();
        let exists = folder.join(&built).exists();
        command.push(if exists { built } else { format!("stub-{}", need.file()) });
    }
    if library.needs_absent {
        if !folder.join("absent.o").exists() {
            fs::write(folder.join("absent.c"), "")?;
            gcc(folder, &["-c", "-o", "absent.o", "absent.c"])?;
            let options = ["-shared", "-o", "stub-absent.so", "-Wl,-soname,absent.so", "absent.o"];
            gcc(folder, &options)?;
        }
        command.push("stub-absent.so".into());
    }
    gcc(folder, &command).map_err(|error| {
        let message = error.to_string();
        LinkerFailed { linker, output: output.to_owned(), message }.into()
    })
}

/// The linker to use instead of `linker`: bfd replaces one that is not installed, so that a seed is the same program
/// on every machine.
fn linker_at_hand(linker: &'static str) -> &'static str {
    if linker.is_empty() || !is_installed(linker) { "bfd" } else { linker }
}

/// The linkers that programs can draw and that are not installed.
pub(super) fn absent() -> impl Iterator<Item = &'static str> {
    LINKERS.into_iter().filter(|linker| !is_installed(linker))
}

fn gcc<O: AsRef<OsStr>>(folder: &Path, options: &[O]) -> Result<()> {
    // mold 1.10 has been seen to spin for ever on an input that it links at once on a second try.
    let run = || {
        let mut command = Command::new("timeout");
        command.args(["60", "gcc"]).args(options).current_dir(folder).output()
    };
    let mut output = run()?;
    if output.status.code() == Some(TIMED_OUT) {
        output = run()?;
    }
    if !output.status.success() {
        let options: Vec<_> =
            options.iter().map(|option| option.as_ref().to_string_lossy()).collect();
        bail!("gcc {}\n{}", options.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
