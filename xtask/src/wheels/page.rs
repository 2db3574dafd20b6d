//! The tables of docs/libraries.md. A run replaces the table of its Python and leaves the rest of the page as it is.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::finding::{Finding, Outcome};
use super::list::{Place, Row};

/// What a table says of the run.
pub struct Table<'a> {
    pub minor: u8,
    pub copies: usize,
    pub rounds: usize,
    pub rows: &'a [(Row, Option<Finding>)],
}

fn marks(minor: u8) -> (String, String) {
    let mark = |word: &str| format!("<!-- cargo xtask wheels --python 3.{minor}: {word} -->");
    (mark("begin"), mark("end"))
}

/// Replaces the table of that Python in a page.
pub fn write(page: &Path, table: &Table<'_>) -> Result<()> {
    let text =
        std::fs::read_to_string(page).with_context(|| format!("reading {}", page.display()))?;
    let text = replaced(&text, table).with_context(|| page.display().to_string())?;
    std::fs::write(page, text).with_context(|| format!("writing {}", page.display()))
}

fn replaced(page: &str, table: &Table<'_>) -> Result<String> {
    let (begin, end) = marks(table.minor);
    let (before, rest) =
        page.split_once(&begin).with_context(|| format!("the page has no line {begin}"))?;
    let (_, after) =
        rest.split_once(&end).with_context(|| format!("the page has no line {end}"))?;
    Ok(format!("{before}{begin}\n{}{end}{after}", table.text()?))
}

impl Table<'_> {
    fn text(&self) -> Result<String> {
        let mut text = String::new();
        writeln!(
            text,
            "CPython 3.{}, {} copies at once, {} rounds in each.\n",
            self.minor, self.copies, self.rounds
        )?;
        let ranked = |place| matches!(place, Place::Rank(_));
        for (title, most_used) in [("The 60 most used", true), ("Further wheels", false)] {
            let rows = || self.rows.iter().filter(|(row, _)| ranked(row.place) == most_used);
            let count = |outcome| {
                let is = |found: &Option<Finding>| {
                    found.as_ref().is_some_and(|found| found.outcome == outcome)
                };
                rows().filter(|(_, found)| is(found)).count()
            };
            let (equal, absent) = (count(Outcome::Equal), count(Outcome::NoWheel));
            let tried = rows().count() - absent;
            write!(text, "**{title}: {equal} of {tried} equal")?;
            let absent =
                if absent == 0 { "**".to_owned() } else { format!(", {absent} without a wheel**") };
            writeln!(text, "{absent}\n\n| library | release | what is called | result |")?;
            writeln!(text, "|---|---|---|---|")?;
            for (row, finding) in rows() {
                let (release, result) = match finding {
                    Some(finding) => (finding.release.as_deref().unwrap_or("-"), finding.words()),
                    None => ("-", "not run".to_owned()),
                };
                let cells = [row.packages[0].as_str(), release, &row.calls()?, &result].map(cell);
                writeln!(text, "| {} |", cells.join(" | "))?;
            }
            text.push('\n');
        }
        Ok(text)
    }
}

/// A text in a cell of Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheels::list;

    #[test]
    fn a_run_replaces_the_table_of_its_python_only() {
        let rows: Vec<_> = list::rows()
            .expect("the list")
            .into_iter()
            .map(|row| {
                let finding = match row.work.as_str() {
                    "numpy" => Finding::of(Outcome::Differs, "copy 2: <a|b>", ""),
                    "jax" => Finding::of(Outcome::NoWheel, "none", ""),
                    _ => Finding { cause: None, ..Finding::of(Outcome::Equal, "", "") },
                };
                (row, Some(finding))
            })
            .collect();
        let table = Table { minor: 11, copies: 3, rounds: 2, rows: &rows };
        let ((begin, end), (other, last)) = (marks(11), marks(13));
        let page =
            format!("head\n{begin}\nstale row\n{end}\nmiddle\n{other}\nkept\n{last}\ntail\n");
        let new = replaced(&page, &table).expect("the page has its marks");
        assert!(new.starts_with("head\n") && new.ends_with("tail\n"), "{new}");
        assert!(new.contains(&format!("{other}\nkept\n{last}")) && !new.contains("stale row"));
        assert!(new.contains("**The 60 most used: 59 of 60 equal**"), "{new}");
        assert!(new.contains(" equal, 1 without a wheel**"), "{new}");
        assert!(new.contains("| differs: copy 2: &lt;a\\|b> |"), "{new}");
        assert_eq!(replaced(&new, &table).expect("its marks are kept"), new);
        assert!(replaced("no marks", &table).is_err());
    }
}
