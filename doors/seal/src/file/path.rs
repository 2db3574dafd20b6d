//! Paths of members. Each is below the root, and one that is written below a folder stays there.

/// Fails with the rule that a path breaks.
pub(super) fn check(path: &str) -> Result<(), &'static str> {
    if path.contains(['\t', '\n', '\r', '\0']) {
        return Err("it has a tab, a line's end or a zero byte");
    }
    if path.starts_with('/') {
        return Err("it begins with a slash");
    }
    if path.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err("it has an empty name, `.` or `..`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn paths_that_leave_a_folder_or_end_a_line_are_refused() {
        for path in ["lib/python3.12/os.py", "a", "a b/ü", "..a/b..", "<frozen>"] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
        for path in ["", "/a", "../a", "a/../b", "a/..", "./a", "a//b", "a/", "a\tb", "a\nb", "a\0"]
        {
            assert!(check(path).is_err(), "{path:?}");
        }
    }
}
