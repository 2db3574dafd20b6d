//! Packages that two environments have in common: links to the files of the first, in place of a second download.
//!
//! Two lock files that pin a wheel by the same hash pin the same files. Half of torch's packages, the largest, are for every
//! version of CPython.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path};

use anyhow::{Context, Result};

/// Links the packages that both lock files pin from one site-packages folder into another one. Returns the lines of
/// `lock` that are left for pip, and the number of linked packages.
///
/// A package with files outside of that folder is left: its programs name the Python of their environment.
pub fn link(from: &Path, from_lock: &str, to: &Path, lock: &str) -> Result<(String, usize)> {
    let mut left = String::new();
    let mut count = 0;
    for line in lock.lines() {
        let shared = line.contains("==") && from_lock.lines().any(|other| other == line);
        if let Some(files) = shared.then(|| files(from, line)).transpose()?.flatten()
            && !has(to, name(line))?
        {
            link_files(from, &files, to)?;
            count += 1;
        } else {
            left.push_str(line);
            left.push('\n');
        }
    }
    Ok((left, count))
}

/// The name of a line's package, as installed folders have it.
fn name(line: &str) -> String {
    line.split("==").next().unwrap_or(line).replace('-', "_")
}

/// Whether some version of the package is installed. A new environment of an older Python has setuptools.
fn has(folder: &Path, name: String) -> Result<bool> {
    let pattern = folder.join(format!("{name}-*.dist-info"));
    let pattern = pattern.to_str().context("the path of the environment is not UTF-8")?;
    Ok(glob::glob(pattern)?.next().is_some())
}

/// The files of an installed package, without compiled modules; `None` if some lie elsewhere.
/// The list is the RECORD of its .dist-info folder (Python Packaging User Guide, "Recording installed projects").
fn files(from: &Path, line: &str) -> Result<Option<Vec<String>>> {
    let Some((_, rest)) = line.split_once("==") else { return Ok(None) };
    let version = rest.split_whitespace().next().unwrap_or(rest);
    let record = format!("{}-{version}.dist-info/RECORD", name(line));
    if !from.join(&record).is_file() {
        return Ok(None);
    }
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_path(from.join(&record))
        .with_context(|| format!("reading {record}"))?;
    let mut files = Vec::new();
    for row in reader.records() {
        let row = row.with_context(|| format!("reading {record}"))?;
        let file = row.get(0).unwrap_or_default();
        if Path::new(file).components().any(|part| !matches!(part, Component::Normal(_))) {
            return Ok(None);
        }
        // Each version of CPython has compiled modules of its own.
        if !file.ends_with(".pyc") {
            files.push(file.to_owned());
        }
    }
    Ok(Some(files))
}

fn link_files(from: &Path, files: &[String], to: &Path) -> Result<()> {
    for file in files {
        let (from, to) = (from.join(file), to.join(file));
        let folder = to.parent().context("a file lies in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        match fs::hard_link(&from, &to) {
            // Parts of a namespace package have files in common.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            linked => {
                linked.with_context(|| format!("linking {} to {}", to.display(), from.display()))?
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURE: &str = "some-pure==1.0 --hash=sha256:aa";
    const PROGRAM: &str = "program==2.0 --hash=sha256:bb";
    const ANOTHER: &str = "another==3.0 --hash=sha256:cc";

    fn installed(folder: &Path, name: &str, record: &str) -> Result<()> {
        let info = folder.join(format!("{name}.dist-info"));
        fs::create_dir_all(&info)?;
        fs::write(info.join("RECORD"), record)?;
        Ok(())
    }

    #[test]
    fn the_same_wheel_is_linked_without_compiled_modules_and_the_rest_is_left() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let record = "some_pure/a.py,sha256=x,1\nsome_pure/__pycache__/a.cpython-311.pyc,,\n\
            some_pure-1.0.dist-info/RECORD,,\n";
        installed(&from, "some_pure-1.0", record)?;
        fs::create_dir_all(from.join("some_pure"))?;
        fs::write(from.join("some_pure/a.py"), "a = 1\n")?;
        installed(
            &from,
            "program-2.0",
            "../../../bin/program,,\nprogram-2.0.dist-info/RECORD,,\n",
        )?;
        installed(&from, "another-3.0", "another-3.0.dist-info/RECORD,,\n")?;

        let newer = ANOTHER.replace("cc", "dd");
        let locks = |last: &str| format!("# packages\n{PURE}\n{PROGRAM}\n{last}\n");
        let (left, count) = link(&from, &locks(ANOTHER), &to, &locks(&newer))?;

        assert_eq!(left, format!("# packages\n{PROGRAM}\n{newer}\n"));
        assert_eq!(count, 1);
        assert_eq!(fs::read_to_string(to.join("some_pure/a.py"))?, "a = 1\n");
        assert!(to.join("some_pure-1.0.dist-info/RECORD").exists());
        assert!(!to.join("some_pure/__pycache__").exists());
        assert!(!to.join("another-3.0.dist-info").exists());

        let (left, count) = link(&from, PURE, &to, PURE)?;
        assert_eq!((left.trim(), count), (PURE, 0), "what is installed is left as it is");
        Ok(())
    }
}
