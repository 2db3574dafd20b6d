//! A module that an interpreter has not found: where it should come from.

use std::path::Path;

use anyhow::Error;
use hydrozoa::Error::Python;
use hydrozoa::python;

use crate::Choice;

/// Adds to the error of a missing module what to do. `own` is the module that the user has named, if the command takes one.
/// Other errors stay as they are.
pub fn explained(error: Error, choice: &Choice, own: Option<&str>) -> Error {
    let Some(Python { type_name, message, traceback, .. }) = error.downcast_ref() else {
        return error;
    };
    // "No module named 'a.b'"
    let Some(module) = message.split('\'').nth(1).filter(|_| type_name == "ModuleNotFoundError")
    else {
        return error;
    };
    let hint = if own == Some(module) {
        format!("{module}.py is looked for in the current folder and in those of --path")
    } else {
        from_where(module.split('.').next().unwrap_or(module), choice)
    };
    let (type_name, message) = (type_name.clone(), format!("{message}; {hint}"));
    Python { type_name, message, traceback: frames(traceback), exception: None }.into()
}

fn from_where(package: &str, choice: &Choice) -> String {
    if let Some(venv) = &choice.venv {
        let venv = venv.display();
        return format!(
            "if it is a package, install it with `{venv}/bin/pip install {package}`, or name another environment with --venv"
        );
    }
    let python = python::choose(choice.python.as_deref(), None);
    let python = python.ok().map(|found| found.executable().unwrap_or(found.library()).to_owned());
    let python = python.as_deref().unwrap_or(Path::new("python3")).display();
    format!("{python} does not have it: name a virtual environment that does with --venv DIR")
}

/// The frames of a traceback that are not Hydrozoa's own and not of Python's imports.
fn frames(traceback: &str) -> String {
    let mut kept = String::new();
    let mut keeps = false;
    for line in traceback.lines() {
        if let Some(place) = line.strip_prefix("  File \"") {
            keeps = !["_hydrozoa/", "<frozen importlib"].iter().any(|own| place.starts_with(own))
                && !place.contains("/importlib/__init__.py");
        } else if !line.starts_with(' ') {
            keeps = false;
        }
        if keeps {
            kept = kept + line + "\n";
        }
    }
    if kept.is_empty() { kept } else { format!("Traceback (most recent call last):\n{kept}") }
}

#[cfg(test)]
mod tests {
    use super::frames;

    #[test]
    fn frames_of_the_user_s_code_stay() {
        let traceback = "Traceback (most recent call last):\n  File \"_hydrozoa/exporting.py\", line 98, in build\n    \
            obj = f()\n          ^^^\n  File \"<frozen importlib._bootstrap>\", line 1204, in _gcd_import\n  \
            File \"/a/train.py\", line 1, in <module>\n    import nope\nModuleNotFoundError: No module named 'nope'\n";
        let kept = "Traceback (most recent call last):\n  File \"/a/train.py\", line 1, in <module>\n    import nope\n";
        assert_eq!(frames(traceback), kept);
        assert_eq!(frames(&traceback.replace("/a/train.py", "_hydrozoa/a.py")), "");
    }
}
