//! Patterns of paths: the parts that stay out by default, and those that the caller leaves out or keeps.

/// Parts of the standard library that a sealed file leaves out, unless the caller keeps them.
///
/// An application does not need them: tests, Tk with its programs, the installer of pip, and the files by which others link
/// against Python.
pub(crate) const LEFT_OUT: [&str; 19] = [
    "test",
    "*/test",
    "*/tests",
    "lib2to3/tests",
    "tkinter",
    "turtle.py",
    "turtledemo",
    "idlelib",
    "ensurepip",
    "config-3.*",
    "sitecustomize.py",
    "lib-dynload/_tkinter.*",
    "lib-dynload/_test*",
    "lib-dynload/_ctypes_test.*",
    "lib-dynload/_xxtestfuzz.*",
    "lib-dynload/xxlimited*",
    "lib-dynload/xxsubtype.*",
    "__hello__.py",
    "__phello__",
];

/// Files that no sealed file takes along from any directory: caches, and what a linker reads.
const NEVER: [&str; 4] = ["__pycache__", "*.a", "*.o", "*.la"];

/// A list of patterns. A pattern matches a file or directory, and with a directory everything below it.
///
/// The patterns are relative paths. `*` and `?` stand for characters other than a slash, `**` for any directories.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns(Vec<String>);

impl Patterns {
    pub(crate) fn new(patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(patterns.into_iter().map(Into::into).collect())
    }

    pub(crate) fn add(&mut self, pattern: &str) {
        self.0.push(pattern.trim_end_matches('/').to_owned());
    }

    /// Whether a pattern matches the path itself or a directory above it.
    pub(crate) fn cover(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        ends.into_iter().any(|end| self.match_whole(&path[..end]))
    }

    /// Whether a pattern could match something below the directory.
    fn match_whole(&self, path: &str) -> bool {
        self.0.iter().any(|pattern| matches(pattern, path))
    }
}

/// Whether a name is one that no sealed file takes along.
pub(super) fn is_never_taken(name: &str) -> bool {
    NEVER.iter().any(|pattern| matches_part(pattern.as_bytes(), name.as_bytes()))
}

/// Whether the pattern matches the whole path.
fn matches(pattern: &str, path: &str) -> bool {
    let (first, rest) = split(pattern);
    if first == "**" {
        let Some(rest) = rest else { return true };
        let mut left = Some(path);
        while let Some(path) = left {
            if matches(rest, path) {
                return true;
            }
            left = split(path).1;
        }
        return false;
    }
    let (part, below) = split(path);
    if !matches_part(first.as_bytes(), part.as_bytes()) {
        return false;
    }
    match (rest, below) {
        (None, None) => true,
        (Some(rest), Some(below)) => matches(rest, below),
        _ => false,
    }
}

fn split(path: &str) -> (&str, Option<&str>) {
    path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)))
}

/// Whether the pattern, without slashes, matches the name. It goes back to the last star only, so its time is at most the
/// product of both lengths.
fn matches_part(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut position, mut star) = (0, 0, None);
    while position < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, position));
                at += 1;
            }
            Some(&letter) if letter == b'?' || letter == name[position] => {
                at += 1;
                position += 1;
            }
            _ => {
                let Some((begin, taken)) = star else { return false };
                star = Some((begin, taken + 1));
                (at, position) = (begin + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_a_file_and_all_below_a_directory() {
        for (pattern, path, is_covered) in [
            ("nvidia/*", "nvidia/cublas/lib/libcublas.so.12", true),
            ("nvidia/*", "nvidia", false),
            ("torch/lib/libtorch_cuda*", "torch/lib/libtorch_cuda_linalg.so", true),
            ("torch/lib/libtorch_cuda*", "torch/lib/libtorch_cpu.so", false),
            ("*/tests", "unittest/tests/a.py", true),
            ("*/tests", "a/b/tests/a.py", false),
            ("**/tests", "a/b/tests/a.py", true),
            ("**/tests", "tests", true),
            ("**/*.pyi", "numpy/_core/a.pyi", true),
            ("test", "test/support/os_helper.py", true),
            ("test", "testing", false),
            ("a*b*c", "axxbyybzc", true),
            ("a*b*c", "axxbyybzcd", false),
            ("config-3.*", "config-3.12-x86_64-linux-gnu/Makefile", true),
            ("?", "ab", false),
        ] {
            assert_eq!(Patterns::new([pattern]).cover(path), is_covered, "{pattern} {path}");
        }
    }
}
