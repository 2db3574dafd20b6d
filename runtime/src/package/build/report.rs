//! The report of a build: what the package holds, and why.

use super::super::{Archive, Signature};
use super::{Row, page};
use crate::Result;
use crate::imports::ImportProfile;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// One module that the packaged object needs, or seems to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Module {
    /// Its plain name, or `<model.model.pkl>` for a pickle.
    pub name: String,
    /// `intern`, `extern`, `mock`, `library` or `pickle`.
    pub action: String,
    /// The rule that decided it.
    pub reason: String,
    /// Bytes of its source in the package.
    pub bytes: u64,
    /// The modules and pickles that name it.
    pub wanted_by: Vec<String>,
    /// Whether loading and calling the object imported it.
    pub imported: bool,
    /// Whether the object computes the same bits with a mock in its place.
    pub is_false: bool,
}

/// Private memory that an external module, with the modules that only it imports, takes in each
/// interpreter.
///
/// torch.package cannot mock a part of an external package, such as `torch._dynamo`. The module of the
/// package that imports it can be mocked, patched, or changed to import later.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// The module of the package that imports it; empty if the call imports it.
    pub by: String,
    /// The line of the import statement; 0 if a call of the module imports it.
    pub line: u32,
    /// The external module.
    pub module: String,
    /// How many modules were imported with it, itself included.
    pub modules: usize,
    /// Private memory in bytes, measured once in an interpreter that had torch.
    pub bytes: u64,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}  {}", size(self.bytes), self.module)?;
        if self.modules > 1 {
            write!(f, " and {} more", self.modules - 1)?;
        }
        match (self.by.as_str(), self.line) {
            ("", _) => write!(f, ", when it is loaded and called"),
            (by, 0) => write!(f, ", by what {by} calls"),
            (by, line) => write!(f, ", by {by}, line {line}"),
        }
    }
}

/// The result of trying a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It loads, and computes the same bits as the unpackaged object.
    Same,
    /// It loads. Without arguments it was not called.
    Loads,
    /// It computes something else: the text names what and where.
    Differs(String),
    /// It does not load, or its call raises: the exception with its traceback.
    Fails(String),
}

/// The package that [`Pool::build_package`](crate::Pool::build_package) has written, and the reasons for its contents.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The package.
    pub file: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many storages it has, and their bytes.
    pub storages: (usize, u64),
    /// Shared libraries in it, with their bytes.
    pub libraries: Vec<(String, u64)>,
    /// The modules that it needs, in the exporter's order.
    pub modules: Vec<Module>,
    /// The costs of external modules in each interpreter, the largest first.
    pub costs: Vec<Cost>,
    /// Whether it works.
    pub verdict: Verdict,
    /// The call's inputs and outputs; the package carries them. A text says why a server cannot make requests of it.
    pub signature: std::result::Result<Signature, String>,
    /// The profile of imports that the package carries.
    pub imports: Option<ImportProfile>,
    /// Whether the time limit allowed to try every module as a false dependency.
    pub complete: bool,
}

impl Report {
    pub(super) fn new(file: &Path, rows: Vec<Row>) -> Result<Self> {
        let archive = Archive::open(file)?;
        let size = |record: &str| archive.size(record).map(|size| size as u64);
        let storages: Vec<u64> = archive
            .records()
            .filter(|record| record.starts_with(".data/") && record.ends_with(".storage"))
            .map(size)
            .collect::<Result<_, _>>()?;
        let libraries = archive
            .libraries()
            .map(|record| Ok((record.to_owned(), size(record)?)))
            .collect::<Result<_>>()?;
        let modules = rows
            .into_iter()
            .map(|(name, action, reason, bytes, wanted_by)| Module {
                name,
                action,
                reason,
                bytes,
                wanted_by,
                imported: false,
                is_false: false,
            })
            .collect();
        Ok(Self {
            file: file.to_owned(),
            bytes: archive.mapping().len() as u64,
            storages: (storages.len(), storages.iter().sum()),
            libraries,
            modules,
            costs: Vec::new(),
            verdict: Verdict::Loads,
            signature: Err("there is no example".to_owned()),
            imports: None,
            complete: false,
        })
    }

    pub(super) fn set_imported(&mut self, modules: &[String], externs: &[String]) {
        let imported: BTreeSet<&String> = modules.iter().chain(externs).collect();
        for module in &mut self.modules {
            module.imported = module.action == "pickle" || imported.contains(&module.name);
        }
    }

    pub(super) fn set_costs(&mut self, rows: Vec<(String, u32, String, usize, u64)>) {
        let cost = |(by, line, module, modules, bytes)| Cost { by, line, module, modules, bytes };
        self.costs = rows.into_iter().map(cost).collect();
    }

    /// The costs of a megabyte and more.
    pub fn large_costs(&self) -> impl Iterator<Item = &Cost> {
        self.costs.iter().filter(|cost| cost.bytes >= 1_000_000)
    }

    pub(super) fn set_false(&mut self, names: &[String], complete: bool) {
        for module in &mut self.modules {
            module.is_false = names.contains(&module.name);
        }
        self.complete = complete;
    }

    /// Patterns that mock the false dependencies; one pattern for a package that is one as a whole.
    pub fn proposed_mocks(&self) -> Vec<String> {
        let considered =
            |module: &&Module| matches!(module.action.as_str(), "intern" | "extern" | "mock");
        let mut patterns = BTreeSet::new();
        for module in self.modules.iter().filter(|module| module.is_false) {
            let mut pattern = module.name.clone();
            for (at, _) in module.name.match_indices('.').chain([(module.name.len(), "")]) {
                let package = &module.name[..at];
                let below = |name: &str| {
                    name.strip_prefix(package)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                };
                let inside = || self.modules.iter().filter(considered).filter(|m| below(&m.name));
                let all = inside().all(|module| module.is_false || module.action == "mock");
                if all && inside().count() > 1 {
                    pattern = format!("{package}.**");
                    break;
                }
            }
            patterns.insert(pattern);
        }
        patterns.into_iter().collect()
    }

    /// The modules as a tree from the pickles down. Each module stands at the end of its shortest path.
    pub fn tree(&self) -> String {
        let by_name: BTreeMap<&str, &Module> =
            self.modules.iter().map(|module| (module.name.as_str(), module)).collect();
        let mut below: BTreeMap<&str, Vec<&Module>> = BTreeMap::new();
        for module in &self.modules {
            for parent in &module.wanted_by {
                below.entry(parent).or_default().push(module);
            }
        }
        let mut children: BTreeMap<&str, Vec<&Module>> = BTreeMap::new();
        let roots: Vec<&Module> =
            self.modules.iter().filter(|module| module.wanted_by.is_empty()).collect();
        let mut seen: BTreeSet<&str> = roots.iter().map(|module| module.name.as_str()).collect();
        let mut queue: VecDeque<&Module> = roots.iter().copied().collect();
        while let Some(module) = queue.pop_front() {
            for child in below.get(module.name.as_str()).into_iter().flatten() {
                if seen.insert(&child.name) {
                    children.entry(&module.name).or_default().push(child);
                    queue.push_back(child);
                }
            }
        }
        let mut text = String::new();
        for root in roots {
            text.push_str(&line(by_name[root.name.as_str()], ""));
            branch(&children, &root.name, "", &mut text);
        }
        text
    }

    /// The report as one HTML page that needs no other file and no network.
    pub fn html(&self) -> String {
        page::html(self)
    }
}

/// A module's line.
fn line(module: &Module, indent: &str) -> String {
    let mut text = format!("{indent}{:<7} {}", module.action, module.name);
    if module.bytes > 0 {
        let _ = write!(text, "  {}", size(module.bytes));
    }
    let _ = write!(text, "  ({})", module.reason);
    if module.is_false {
        text.push_str("  FALSE");
    }
    text.push('\n');
    text
}

/// The tree below `name`. External modules without children share one line.
fn branch(children: &BTreeMap<&str, Vec<&Module>>, name: &str, indent: &str, text: &mut String) {
    let Some(list) = children.get(name) else { return };
    let leaf = |module: &&&Module| {
        module.action == "extern" && !module.is_false && module.reason.starts_with("torch or")
    };
    let (leaves, branches): (Vec<&&Module>, Vec<&&Module>) = list.iter().partition(leaf);
    for (index, module) in branches.iter().enumerate() {
        let last = index + 1 == branches.len() && leaves.is_empty();
        let (bend, bar) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        text.push_str(&line(module, &format!("{indent}{bend}")));
        branch(children, &module.name, &format!("{indent}{bar}"), text);
    }
    if !leaves.is_empty() {
        let names: Vec<&str> = leaves.iter().map(|module| module.name.as_str()).collect();
        let _ = writeln!(text, "{indent}└─ extern  {}", names.join(", "));
    }
}

/// `38.1 KB`.
pub(super) fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        ..1e3 => format!("{bytes} B"),
        ..1e6 => format!("{:.1} KB", bytes / 1e3),
        ..1e9 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.2} GB", bytes / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, action: &str, wanted_by: &[&str], is_false: bool) -> Module {
        Module {
            name: name.to_owned(),
            action: action.to_owned(),
            reason: "a rule".to_owned(),
            bytes: 1000,
            wanted_by: wanted_by.iter().map(|&name| name.to_owned()).collect(),
            imported: true,
            is_false,
        }
    }

    fn report() -> Report {
        Report {
            file: "m.pt".into(),
            bytes: 1,
            storages: (0, 0),
            libraries: Vec::new(),
            modules: vec![
                module("<model.model.pkl>", "pickle", &[], false),
                module("net", "intern", &["<model.model.pkl>"], false),
                module("net.layers", "intern", &["net"], false),
                module("plot", "intern", &["net", "net.layers"], true),
                module("plot.axes", "intern", &["plot"], true),
                module("net.debug", "intern", &["net"], true),
            ],
            costs: vec![Cost {
                by: "net".to_owned(),
                line: 3,
                module: "torch._dynamo".to_owned(),
                modules: 900,
                bytes: 63_000_000,
            }],
            signature: Err("there is no example".to_owned()),
            imports: None,
            verdict: Verdict::Same,
            complete: true,
        }
    }

    #[test]
    fn a_package_that_is_false_as_a_whole_is_one_proposal() {
        assert_eq!(report().proposed_mocks(), ["net.debug", "plot.**"]);
    }

    #[test]
    fn the_tree_names_each_module_once_where_the_shortest_way_leads() {
        let tree = report().tree();
        let lines: Vec<&str> = tree.lines().collect();
        assert_eq!(lines.len(), 6, "{tree}");
        assert_eq!(lines[2], "   ├─ intern  net.layers  1.0 KB  (a rule)");
        assert_eq!(lines[4], "   │  └─ intern  plot.axes  1.0 KB  (a rule)  FALSE");
    }

    #[test]
    fn the_page_is_one_file_and_names_every_module() {
        let page = report().html();
        assert!(page.contains("\"net.layers\"") && page.contains("plot.**"));
        assert!(page.contains("63.0 MB  torch._dynamo and 899 more, by net, line 3"));
        for outside in ["http:", "https:", "src=", "<link"] {
            assert!(!page.contains(outside), "{outside}");
        }
        // A name cannot end the script that it stands in.
        let mut hostile = report();
        hostile.modules[1].name = "</script><b>".to_owned();
        assert!(!hostile.html().contains("</script><b>"));
    }
}
