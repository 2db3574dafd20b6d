//! The application's own files: its script, its directories, its packages of models.

use super::error::CollectError;
use super::packages::add_project;
use super::tree::Tree;
use super::wishes::Wishes;
use crate::member::Kind;
use std::path::Path;

/// The directory of the application's modules in the sealed file, the first on `sys.path`.
pub(super) const DIRECTORY: &str = "app";

/// The directory of archives of torch.package.
const ARCHIVES: &str = "packages";

/// The program of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// The module of this name runs as `__main__`.
    Script(String),
    /// The function `MODULE:ATTRIBUTE` is called.
    Function(String),
    /// The archives are served.
    Serve,
    /// Nothing: the program that carries the Python decides.
    Python,
}

impl Program {
    /// The words of the record `entry`.
    pub(crate) fn words(&self) -> Vec<&str> {
        match self {
            Self::Script(name) => vec!["script", name],
            Self::Function(name) => vec!["function", name],
            Self::Serve => vec!["serve"],
            Self::Python => Vec::new(),
        }
    }

    /// The module that must be in the file.
    pub(super) fn module(&self) -> Option<&str> {
        match self {
            Self::Script(name) => Some(name),
            Self::Function(name) => name.split(':').next(),
            Self::Serve | Self::Python => None,
        }
    }
}

/// Takes the application's files along. Returns what runs.
pub(super) fn add(tree: &mut Tree, wishes: &Wishes) -> Result<Program, CollectError> {
    for directory in &wishes.directories {
        if !directory.is_dir() {
            return Err(CollectError::Wish(format!(
                "{}: it is not a directory; name the directory that holds the application's modules",
                directory.display()
            )));
        }
        add_project(tree, directory, DIRECTORY, wishes)?;
    }
    let script = wishes.script.as_deref().map(|file| add_script(tree, file)).transpose()?;
    for archive in &wishes.archives {
        add_archive(tree, archive)?;
    }
    let program = match (&wishes.entry, script) {
        (Some(entry), _) => Program::Function(checked(entry)?.to_owned()),
        (None, Some(script)) => Program::Script(script),
        (None, None) if !wishes.archives.is_empty() => Program::Serve,
        (None, None) => Program::Python,
    };
    Ok(program)
}

/// Takes a script along as a module of its name.
fn add_script(tree: &mut Tree, file: &Path) -> Result<String, CollectError> {
    let refused = |reason: &str| Err(CollectError::Wish(format!("{}: {reason}", file.display())));
    if !file.is_file() {
        return refused("it is not a file; name the script that runs");
    }
    let Some(name) = file.file_name().and_then(|name| name.to_str()) else {
        return refused("its name is not UTF-8; rename it");
    };
    let stem = name.strip_suffix(".py").unwrap_or(name);
    if stem.is_empty() || stem.contains('.') {
        return refused(
            "a module cannot have this name, because it holds a dot; rename the script",
        );
    }
    tree.add_as(Kind::Source, format!("{DIRECTORY}/{stem}.py"), file.to_owned())?;
    Ok(stem.to_owned())
}

fn add_archive(tree: &mut Tree, file: &Path) -> Result<(), CollectError> {
    let name = file.file_name().and_then(|name| name.to_str()).filter(|_| file.is_file());
    let Some(name) = name else {
        return Err(CollectError::Wish(format!(
            "{}: it is not a file; name a package that `hydrozoa package build` or torch.package has written",
            file.display()
        )));
    };
    tree.add_as(Kind::Package, format!("{ARCHIVES}/{name}"), file.to_owned())
}

/// The entry, if it has the form `MODULE:ATTRIBUTE`.
fn checked(entry: &str) -> Result<&str, CollectError> {
    let is_name = |part: &str| {
        let mut letters = part.chars();
        let is_first = |letter: char| letter == '_' || letter.is_alphabetic();
        letters.next().is_some_and(is_first)
            && letters.all(|one| one == '_' || one.is_alphanumeric())
    };
    match entry.split_once(':') {
        Some((module, attribute))
            if module.split('.').all(is_name) && attribute.split('.').all(is_name) =>
        {
            Ok(entry)
        }
        _ => Err(CollectError::Wish(format!(
            "the entry {entry:?} has not the form MODULE:FUNCTION, such as `shop.main:run`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn refusal(wishes: Wishes) -> String {
        add(&mut Tree::default(), &wishes).unwrap_err().to_string()
    }

    #[test]
    fn a_script_is_a_module_without_its_neighbours() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("go"), "").unwrap();
        fs::write(folder.path().join("other.py"), "").unwrap();
        let mut tree = Tree::default();
        let wishes = Wishes { script: Some(folder.path().join("go")), ..Wishes::default() };
        let program = add(&mut tree, &wishes).unwrap();
        assert_eq!(program, Program::Script("go".to_owned()));
        assert_eq!(tree.paths().collect::<Vec<_>>(), ["app/go.py"]);
    }

    #[test]
    fn a_package_alone_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.pt");
        fs::write(&file, "").unwrap();
        let mut tree = Tree::default();
        let wishes = Wishes { archives: vec![file], ..Wishes::default() };
        assert_eq!(add(&mut tree, &wishes).unwrap(), Program::Serve);
        assert_eq!(tree.paths().collect::<Vec<_>>(), ["packages/m.pt"]);
    }

    #[test]
    fn wrong_wishes_are_named_with_the_remedy() {
        for entry in ["main", "a-b:run", ":run", "main:", "a..b:run"] {
            let wishes = Wishes { entry: Some(entry.to_owned()), ..Wishes::default() };
            assert!(refusal(wishes).contains("has not the form MODULE:FUNCTION"), "{entry}");
        }
        let wishes = Wishes { script: Some("no/such.py".into()), ..Wishes::default() };
        assert!(refusal(wishes).starts_with("no/such.py: it is not a file"));
        let wishes = Wishes { directories: vec!["no/such".into()], ..Wishes::default() };
        assert!(refusal(wishes).starts_with("no/such: it is not a directory"));
        let wishes = Wishes { archives: vec!["no.pt".into()], ..Wishes::default() };
        assert!(refusal(wishes).starts_with("no.pt: it is not a file"));
    }
}
