//! A case's directives: comments that begin with `//#`, one `Key: value` each.
//!
//! | key | value |
//! |---|---|
//! | `Area` | the line of the report that counts it |
//! | `Lib` | a file name and its build options, `{include}` for the folder of the headers; the source is compiled with the name's stem defined as a macro (`leaf.so`: `LEAF`). An option that is the name of another library of the case links against it |
//! | `Open` | a library that the program opens, and `LAZY`, `GLOBAL`; the last library and `NOW` if there is none |
//! | `Steps` | how often `test` of the last opened library is called in each copy (default 2) |
//! | `Expect-output` | a line of the output; with one, all must be given |
//! | `Expect-error` | a text in our error; the load must fail and leave no trace |
//! | `Expect-stderr` | a text in what our process writes to standard error |
//! | `Expect-ours` | a line of our output where it differs from glibc's on purpose; needs `Differs` |
//! | `Differs` | why glibc's output (or its success) is not expected of us |
//! | `Program` | `glibc`: in a domain that extends the program nothing differs |
//! | `Exit` | the exit status of the program (default 0) |
//! | `Close` | any text: the copies are closed (`dlclose` in glibc) before the program ends |
//! | `Ends` | `quick_exit`: the program ends by that, and not by a return from `main` |
//! | `Symbols` | `off` and the reason: addresses of symbols are not compared |
//! | `Sharing` | `off` and the reason: shared text and distinct data are not asserted |
//! | `Modes` | of `one program interleaved threads`, those that apply, and the reason |
//! | `Compilers`, `Linkers` | of `gcc clang`, of `bfd lld mold gold`; each pair that is installed is built |
//! | `Machine` | `x86_64` or `aarch64`, if the source is for that machine alone |
//! | `Needs` | an instruction set of the processor (`avx512f`, ...) |
//! | `Env` | `NAME=VALUE` for the program; `{folder}` is that of the libraries, `{libasan}` gcc's runtime of AddressSanitizer |
//! | `Patch` | a library and the changes to its bytes after the build, see [`super::patch`] |
//! | `Skip` | why it is not run |

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// One case: a source file and its directives.
#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    pub name: String,
    pub source: PathBuf,
    pub area: String,
    pub libraries: Vec<Library>,
    pub opens: Vec<Open>,
    pub steps: usize,
    pub expected: Vec<String>,
    pub expected_ours: Vec<String>,
    pub error: Option<String>,
    pub stderr: Option<String>,
    pub differs: Option<String>,
    pub program_as_glibc: bool,
    pub exit: i32,
    pub close: bool,
    pub quick_exit: bool,
    pub compare_symbols: bool,
    pub check_sharing: bool,
    pub modes: Vec<String>,
    pub compilers: Vec<String>,
    pub linkers: Vec<String>,
    pub machine: Option<String>,
    pub needs: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub patches: Vec<(String, String)>,
    pub skip: Option<String>,
}

/// A library that the case's source is built into.
#[derive(Clone, Debug)]
pub(super) struct Library {
    pub file: String,
    pub options: Vec<String>,
}

/// A library that the program opens.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Open {
    pub file: String,
    pub lazy: bool,
    pub global: bool,
}

impl Case {
    /// Reads the directives of `source`.
    pub(super) fn read(source: &Path) -> Result<Case> {
        let text = std::fs::read_to_string(source)?;
        Case::parse(source, &text).with_context(|| format!("directives of {}", source.display()))
    }

    fn parse(source: &Path, text: &str) -> Result<Case> {
        let words = |value: &str| value.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut case = Case {
            name: source.file_stem().context("a name")?.to_string_lossy().into_owned(),
            source: source.to_owned(),
            steps: 2,
            compare_symbols: true,
            check_sharing: true,
            modes: words("one program interleaved threads"),
            compilers: words("gcc"),
            linkers: words("bfd"),
            ..Case::default()
        };
        for line in text.lines().filter_map(|line| line.strip_prefix("//#")) {
            let (key, value) = line.split_once(':').context("a directive is `Key: value`")?;
            let value = value.strip_prefix(' ').unwrap_or(value);
            match key.trim() {
                "Area" => case.area = value.trim().to_owned(),
                "Lib" => {
                    let mut options = words(value);
                    ensure!(!options.is_empty(), "Lib wants a file name");
                    let file = options.remove(0);
                    case.libraries.push(Library { file, options });
                }
                "Open" => {
                    let options = words(value);
                    case.opens.push(Open {
                        file: options.first().context("Open wants a file name")?.clone(),
                        lazy: options.contains(&"LAZY".to_owned()),
                        global: options.contains(&"GLOBAL".to_owned()),
                    });
                }
                "Steps" => case.steps = value.trim().parse()?,
                "Expect-output" => case.expected.push(value.to_owned()),
                "Expect-ours" => case.expected_ours.push(value.to_owned()),
                "Expect-error" => case.error = Some(value.trim().to_owned()),
                "Expect-stderr" => case.stderr = Some(value.trim().to_owned()),
                "Differs" => case.differs = Some(value.trim().to_owned()),
                "Program" => {
                    ensure!(value.trim() == "glibc", "the only value is `glibc`");
                    case.program_as_glibc = true;
                }
                "Exit" => case.exit = value.trim().parse()?,
                "Close" => case.close = true,
                "Ends" => {
                    ensure!(value.trim() == "quick_exit", "the only value is `quick_exit`");
                    case.quick_exit = true;
                }
                "Symbols" => case.compare_symbols = !switched_off(value)?,
                "Sharing" => case.check_sharing = !switched_off(value)?,
                "Modes" => {
                    let (modes, reason) =
                        value.split_once(';').context("Modes wants `modes; reason`")?;
                    ensure!(!reason.trim().is_empty(), "Modes wants a reason");
                    case.modes = words(modes);
                }
                "Compilers" => case.compilers = words(value),
                "Linkers" => case.linkers = words(value),
                "Machine" => {
                    let machine = value.trim();
                    ensure!(["x86_64", "aarch64"].contains(&machine), "no machine {machine}");
                    case.machine = Some(machine.to_owned());
                }
                "Needs" => case.needs = words(value),
                "Env" => {
                    let (name, value) = value.split_once('=').context("Env wants NAME=VALUE")?;
                    case.environment.push((name.trim().to_owned(), value.to_owned()));
                }
                "Patch" => {
                    let (file, change) =
                        value.trim().split_once(' ').context("Patch wants a file and a change")?;
                    case.patches.push((file.to_owned(), change.to_owned()));
                }
                "Skip" => {
                    ensure!(!value.trim().is_empty(), "Skip wants a reason");
                    case.skip = Some(value.trim().to_owned());
                }
                other => bail!("no such directive: {other}"),
            }
        }
        ensure!(!case.area.is_empty(), "no Area");
        ensure!(
            case.expected_ours.is_empty() || case.differs.is_some(),
            "Expect-ours needs Differs"
        );
        let last = case.libraries.last().context("no Lib")?.file.clone();
        if case.opens.is_empty() {
            case.opens.push(Open { file: last, lazy: false, global: false });
        }
        Ok(case)
    }

    /// The macro that selects the part of the source for `library`.
    pub(super) fn part(library: &Library) -> String {
        let stem = library.file.split(".so").next().unwrap_or_default();
        stem.chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
            .collect()
    }
}

fn switched_off(value: &str) -> Result<bool> {
    let reason =
        value.trim().strip_prefix("off").context("the only value is `off` and a reason")?;
    ensure!(!reason.trim().is_empty(), "`off` wants a reason");
    Ok(true)
}
