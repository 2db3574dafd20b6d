//! The environment of an application: that of the command, and the variables of a file.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Variables by which systemd tells this process, and no other, of its sockets.
const OWN: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// All variables; the last of a name counts.
pub fn variables(file: Option<&Path>) -> Result<Vec<(OsString, OsString)>> {
    let mut variables: Vec<_> = std::env::vars_os()
        .filter(|(name, _)| !OWN.iter().any(|own| name.as_os_str() == *own))
        .collect();
    if let Some(path) = file {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("--env-file {}", path.display()))?;
        let read =
            parse(&text).with_context(|| format!("--env-file {}", path.display()))?.into_iter();
        variables.extend(read.map(|(name, value)| (name.into(), value.into())));
    }
    Ok(variables)
}

/// Lines `NAME=VALUE`, perhaps behind `export`, and the value perhaps in quotes.
fn parse(text: &str) -> Result<Vec<(String, String)>> {
    let mut variables = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else {
            bail!("line {number} is not NAME=VALUE");
        };
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || name.contains(char::is_whitespace) {
            bail!("line {number}: {name:?} is not the name of a variable");
        }
        let quoted = ['"', '\''].into_iter().find_map(|quote| {
            let inside = value.strip_prefix(quote)?;
            Some((quote, inside.strip_suffix(quote)?))
        });
        let value = match quoted {
            Some(('"', inside)) => inside.replace("\\n", "\n").replace("\\\"", "\""),
            Some((_, inside)) => inside.to_owned(),
            // A comment begins behind a space.
            None => value.split(" #").next().unwrap_or(value).trim_end().to_owned(),
        };
        variables.push((name.to_owned(), value));
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_file_of_variables_has_quotes_and_comments() {
        let text =
            "# a\n\nA=1\nexport B = two words # not this\nC=\"a # b\\n\"\nD='\"'\nE=\nF=x=y\n";
        let read = parse(text).unwrap();
        let read: Vec<_> = read.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "a # b\n"),
            ("D", "\""),
            ("E", ""),
            ("F", "x=y"),
        ];
        assert_eq!(read, expected);
        assert!(parse("A=1\nB").unwrap_err().to_string().contains("line 2 is not NAME=VALUE"));
        assert!(parse("a b=1").unwrap_err().to_string().contains("not the name of a variable"));
    }
}
