//! Parts of pages that tasks write. They are between two comments, which name the task.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The lines around what `cargo xtask TASK` writes.
pub fn marks(task: &str) -> [String; 2] {
    ["begin", "end"].map(|edge| format!("<!-- cargo xtask lab {task}: {edge} -->\n"))
}

/// The page with what `change` makes of the task's part.
pub fn replaced(page: &str, task: &str, change: impl FnOnce(&str) -> String) -> Result<String> {
    let [begin, end] = marks(task);
    let (before, rest) =
        page.split_once(&begin).with_context(|| format!("the page has no line {begin}"))?;
    let (old, after) =
        rest.split_once(&end).with_context(|| format!("the page has no line {end}"))?;
    Ok(format!("{before}{begin}{}{end}{after}", change(old)))
}

/// Replaces the task's part in a file.
pub fn write(page: &Path, task: &str, change: impl FnOnce(&str) -> String) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| format!("reading {}", page.display()))?;
    let text = replaced(&text, task, change).with_context(|| page.display().to_string())?;
    fs::write(page, text).with_context(|| format!("writing {}", page.display()))
}

/// The same, with files in a folder of the page's own name beside it.
pub fn write_with_files(
    page: &Path,
    task: &str,
    files: Vec<(String, String)>,
    change: impl FnOnce(&str) -> String,
) -> Result<()> {
    let folder = page.with_extension("");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    write(page, task, change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_changes_its_own_part_alone() {
        let [begin, end] = marks("one");
        let page = format!("head\n{begin}old\n{end}tail\n");
        let changed = replaced(&page, "one", |old| old.replace("old", "new")).unwrap();
        assert_eq!(changed, format!("head\n{begin}new\n{end}tail\n"));
        assert!(replaced(&page, "other", str::to_owned).is_err());
    }
}
