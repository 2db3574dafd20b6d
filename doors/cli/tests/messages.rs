//! The command's messages when a user names the wrong thing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hydrozoa::python::{self, Installation};

/// A package whose model is of a module that no environment has.
const PACKAGE: &str = "
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as package:
    package.writestr('top/.data/extern_modules', 'no_such_package\\n')
    for name in 'model', 'example':
        package.writestr(f'top/model/{name}.pkl', b'cno_such_package\\nModel\\n.')
";

/// A folder for a test, which is the command's current one.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("messages").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn hydrozoa(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hydrozoa"));
    command.args(arguments).current_dir(folder).env_remove("VIRTUAL_ENV").output().unwrap()
}

/// Standard error of a command that fails and prints nothing else.
fn complaint(arguments: &[&str], folder: &Path) -> String {
    let output = hydrozoa(arguments, folder);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {}", output.status);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, "", "{arguments:?} also prints on standard output");
    complaint
}

fn a_python() -> (Installation, String) {
    let python = python::find(None).unwrap();
    let executable =
        python.executable().expect("it has an executable").to_str().unwrap().to_owned();
    (python, executable)
}

#[test]
fn what_is_named_wrongly_is_told_in_one_line_with_what_to_do() {
    let folder = folder("wrong");
    fs::create_dir(folder.join("directory")).unwrap();
    fs::write(folder.join("empty.pt"), "").unwrap();
    fs::write(folder.join("train.py"), "print('hello')\n").unwrap();
    let no_zip = "is not a zip archive: ";
    for (arguments, parts) in [
        (&["bench", "none.pt"][..], &["cannot open the package none.pt: ", "check the path"][..]),
        (&["bench", "directory"], &["cannot open the package directory: ", "name a file"]),
        (&["bench", "empty.pt"], &["empty.pt ", no_zip, "`hydrozoa package` has written"]),
        (&["bench", "train.py"], &["train.py ", no_zip, "`hydrozoa package` has written"]),
        (&["package", "show", "directory"], &["directory: ", "name a file"]),
        (
            &["python", "--venv", "none", "-c", "1"],
            &["environment none does not exist; ", "python3 -m venv none"],
        ),
        (&["bench", "empty.pt", "--venv", "none"], &["environment none does not exist; "]),
    ] {
        let told = complaint(arguments, &folder);
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(parts.iter().all(|part| told.contains(part)), "{arguments:?}: {told}");
    }
    for (arguments, part) in [
        (&["python", "--python", "train.py", "-c", "1"][..], "train.py (as named): it is neither"),
        (
            &["python", "--venv", "train.py", "-c", "1"],
            "nor a virtual environment; name one of these",
        ),
        (&["python", "--python", "/bin/ls", "-c", "1"], "/bin/ls (as named): it is neither"),
        (
            &["python", "--python", "2.7", "-c", "1"],
            "Python 2.7 is not supported: this build serves 3.10 to 3.15; this machine has 3.",
        ),
        (
            &["python", "--python", "3.9", "-c", "1"],
            "Python 3.9 is not supported: this build serves 3.10 to 3.15; this machine has 3.",
        ),
        (&["python", "--copies", "0"], "a number from 1"),
        (&["bench", "empty.pt", "--interpreters", "1,0"], "a number from 1"),
        (&["bench", "empty.pt", "--threads", "x"], "a number from 1"),
        (
            &["package", "build", "train", "-o", "out.pt"],
            "such as train:packaged for the function packaged() of train.py",
        ),
        (&["package", "build", "train.py:packaged", "-o", "out.pt"], "such as train:packaged"),
    ] {
        let told = complaint(arguments, &folder);
        assert!(told.contains(part), "{arguments:?}: {told}");
    }
}

#[test]
fn a_module_that_is_missing_is_told_with_where_it_should_come_from() {
    let folder = folder("missing");
    let (python, executable) = a_python();
    let made =
        Command::new(&executable).args(["-c", PACKAGE, "model.pt"]).current_dir(&folder).status();
    assert!(made.unwrap().success());
    fs::write(
        folder.join("pyvenv.cfg"),
        format!("home = {}\n", python.prefix().join("bin").display()),
    )
    .unwrap();
    let library = python.library().to_str().unwrap();
    let missing = "hydrozoa: ModuleNotFoundError: No module named 'no_such_package'; ";
    let without = format!(
        "{missing}{executable} does not have it: name a virtual environment that does with --venv DIR\n"
    );
    let chosen = ["--python", &executable];
    for arguments in [
        &["bench", "model.pt"][..],
        &["bench", "--memory", "model.pt"],
        &["inspect", "--after", "no_such_package", library],
    ] {
        assert_eq!(complaint(&[arguments, &chosen].concat(), &folder), without, "{arguments:?}");
    }
    // The user's own code stays in the traceback.
    let told = complaint(
        &[&["bench", "--memory", "--run", "import no_such_package"][..], &chosen].concat(),
        &folder,
    );
    assert!(
        told.contains("File \"<string>\", line 1, in <module>") && told.ends_with(&without),
        "{told}"
    );

    let venv = ["--venv", folder.to_str().unwrap()];
    let told = complaint(&[&["bench", "model.pt"][..], &venv].concat(), &folder);
    let install = format!("install it with `{}/bin/pip install no_such_package`", folder.display());
    assert!(told.starts_with(missing) && told.contains(&install), "{told}");
}

#[test]
fn the_pages_name_options_that_the_commands_have() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut count = 0;
    for page in pages.chain([root.join("README.md")]) {
        let text = fs::read_to_string(&page).unwrap().replace("\\\n", " ");
        for line in text.lines() {
            let Some(line) = line.trim_start_matches("$ ").strip_prefix("hydrozoa ") else {
                continue;
            };
            let own = line.split(" # ").next().unwrap().split(" -- ").next().unwrap();
            let words: Vec<&str> = own.split_whitespace().collect();
            let command: Vec<&str> = match words[0] {
                "package" => words[..2].to_vec(),
                "bench" | "doctor" | "inspect" | "python" | "run" | "serve" => vec![words[0]],
                _ => continue,
            };
            let help = hydrozoa(&[&command[..], &["--help"]].concat(), &root).stdout;
            let help = String::from_utf8(help).unwrap();
            for option in words.iter().filter(|word| word.starts_with("--")) {
                let name = option.split('=').next().unwrap();
                let is_known = help.split([' ', ',', '\n', '[']).any(|word| word == name);
                assert!(is_known, "{}: hydrozoa {command:?} has no {name}", page.display());
                count += 1;
            }
        }
    }
    assert!(count > 20, "{count} options");
}
