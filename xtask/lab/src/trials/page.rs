//! The tables of docs/libraries/tables.md. A run replaces its own table and leaves the rest of the page as it is.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::finding::{Finding, Outcome};
use super::list::{List, Ranking, Row};
use crate::section;

/// A table's description of the run.
pub struct Table<'a> {
    pub list: List,
    /// The options that tell this table from the list's others: `--python 3.11`.
    pub options: String,
    /// One sentence about the run.
    pub run: String,
    pub rows: &'a [(Row, Option<Finding>)],
}

/// Replaces the run's table in a page.
pub fn write(page: &Path, table: &Table<'_>) -> Result<()> {
    let text = table.text()?;
    section::write(page, &table.task(), |_| text)
}

impl Table<'_> {
    /// The task and its options, as the page's marks name them.
    fn task(&self) -> String {
        format!("{} {}", self.list.name(), self.options)
    }

    fn text(&self) -> Result<String> {
        let mut text = format!("{}\n\n", self.run);
        let rows = |most_used: bool| -> Vec<_> {
            let ranked = |place| matches!(place, Ranking::Rank(_));
            self.rows.iter().filter(|(row, _)| ranked(row.place) == most_used).collect()
        };
        match self.list {
            List::Wheels => {
                self.section(&mut text, "The 60 most used", &rows(true))?;
                self.section(&mut text, "Further wheels", &rows(false))?;
            }
            List::Areas | List::Gpu => {
                let count = |(_, finding): &(_, Option<Finding>)| finding.as_ref()?.results;
                let areas: usize = self.rows.iter().filter_map(count).sum();
                let title = format!("{areas} areas in {} pieces of work", self.rows.len());
                self.section(&mut text, &title, &rows(false))?;
            }
        }
        Ok(text)
    }

    fn section(
        &self,
        text: &mut String,
        title: &str,
        rows: &[&(Row, Option<Finding>)],
    ) -> Result<()> {
        let count = |outcome| {
            let is =
                |found: &Option<Finding>| found.as_ref().is_some_and(|it| it.outcome == outcome);
            rows.iter().filter(|(_, found)| is(found)).count()
        };
        let (equal, absent) = (count(Outcome::Equal), count(Outcome::NoWheel));
        write!(text, "**{title}: {equal} of {} equal", rows.len() - absent)?;
        let absent =
            if absent == 0 { "**".to_owned() } else { format!(", {absent} without a wheel**") };
        let columns = match self.list {
            List::Wheels => "library | release",
            List::Areas | List::Gpu => "work | areas",
        };
        writeln!(text, "{absent}\n\n| {columns} | what is called | result |\n|---|---|---|---|")?;
        for (row, finding) in rows {
            let result = finding.as_ref().map_or_else(|| "not run".to_owned(), Finding::words);
            let (name, second) = match self.list {
                List::Wheels => {
                    (&row.packages[0], finding.as_ref().and_then(|it| it.release.clone()))
                }
                List::Areas | List::Gpu => {
                    let results = finding.as_ref().and_then(|it| it.results);
                    (&row.work, results.map(|count| count.to_string()))
                }
            };
            let second = second.unwrap_or_else(|| "-".to_owned());
            let cells = [name.as_str(), &second, &row.calls()?, &result].map(cell);
            writeln!(text, "| {} |", cells.join(" | "))?;
        }
        text.push('\n');
        Ok(())
    }
}

/// A text in a cell of Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_replaces_its_own_table_only() {
        let rows: Vec<_> = List::Wheels
            .rows()
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
        let table = |options: &str| Table {
            list: List::Wheels,
            options: options.to_owned(),
            run: "A run.".to_owned(),
            rows: &rows,
        };
        let table = table("--python 3.11");
        let [[begin, end], [other, last]] =
            [table.task(), "wheels --python 3.13".to_owned()].map(|task| section::marks(&task));
        let page = format!("head\n{begin}stale row\n{end}middle\n{other}kept\n{last}tail\n");
        let replaced =
            |page: &str| section::replaced(page, &table.task(), |_| table.text().unwrap());
        let new = replaced(&page).expect("the page has its marks");
        assert!(new.starts_with("head\n") && new.ends_with("tail\n"), "{new}");
        assert!(new.contains(&format!("{other}kept\n{last}")) && !new.contains("stale row"));
        assert!(new.contains("**The 60 most used: 59 of 60 equal**"), "{new}");
        assert!(new.contains(" equal, 1 without a wheel**"), "{new}");
        assert!(new.contains("| differs: copy 2: &lt;a\\|b> |"), "{new}");
    }

    #[test]
    fn the_table_of_areas_counts_them_and_what_was_not_equal() {
        let rows: Vec<_> = List::Areas.rows().expect("the list").into_iter().zip(0..).collect();
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(row, number)| {
                let equal = Finding { cause: None, ..Finding::of(Outcome::Equal, "", "") };
                let dies = Finding::of(Outcome::Dies, "SIGSEGV", "");
                let finding = if number == 1 { dies } else { equal };
                (row, Some(Finding { results: Some(10), ..finding }))
            })
            .collect();
        let run = "A run.".to_owned();
        let table =
            Table { list: List::Areas, options: "--torch 2.11".to_owned(), run, rows: &rows };
        let text = table.text().expect("a table");
        let (all, equal) = (rows.len(), rows.len() - 1);
        let title =
            format!("**{} areas in {all} pieces of work: {equal} of {all} equal**", all * 10);
        assert!(text.starts_with("A run.\n\n") && text.contains(&title), "{text}");
        assert!(text.contains("| dies: SIGSEGV |"), "{text}");
    }
}
