//! docs/decisions.md: each decision has a number, a month and a status, and citations by number lead to one.

use std::collections::BTreeMap;

use crate::sources::{Source, assert_none, sources};

const PAGE: &str = "docs/decisions.md";

/// The decisions of a page by number, each with its status, and the faults of their entries.
fn decisions(page: &Source) -> (BTreeMap<usize, String>, Vec<String>) {
    let (mut found, mut faults) = (BTreeMap::new(), Vec::new());
    let mut lines = page.lines();
    while let Some((place, line)) = lines.next() {
        let Some(heading) = line.strip_prefix("### ") else { continue };
        let number = heading
            .strip_prefix("<a id=\"d")
            .and_then(|rest| rest.split_once("\"></a>D"))
            .filter(|(anchor, rest)| rest.split_once(". ").is_some_and(|(id, _)| id == *anchor))
            .and_then(|(anchor, _)| anchor.parse().ok());
        let Some(number) = number else {
            faults.push(format!("{place}: not <a id=\"dN\"></a>DN. and a title: {heading}"));
            continue;
        };
        let first = lines.find(|(_, line)| !line.is_empty()).map_or("", |(_, line)| line);
        let note = first.strip_prefix('*').and_then(|rest| rest.split_once(".*"));
        let (date, status) = note.and_then(|(note, _)| note.split_once(", ")).unwrap_or_default();
        let is_month = date.split_once('-').is_some_and(|(year, month)| {
            [(year, 4), (month, 2)].iter().all(|(digits, length)| {
                digits.len() == *length && digits.bytes().all(|digit| digit.is_ascii_digit())
            })
        });
        if !is_month {
            faults.push(format!("{place}: D{number} begins with *YEAR-MONTH, STATUS.*"));
        }
        if found.insert(number, status.to_owned()).is_some() {
            faults.push(format!("{place}: D{number} is there twice"));
        }
    }
    for number in 1..=found.len() {
        if !found.contains_key(&number) {
            faults.push(format!("D{number} is missing: numbers are consecutive"));
        }
    }
    for (number, status) in &found {
        let later = status.strip_prefix("superseded by D").and_then(|id| id.parse().ok());
        let is_known = match later {
            Some(later) => later != *number && found.contains_key(&later),
            None => ["in force", "open"].contains(&status.as_str()),
        };
        if !is_known {
            faults.push(format!("D{number} is in force, open, or superseded by DN: {status:?}"));
        }
    }
    (found, faults)
}

/// The numbers that a line cites: `decisions.md#d34`, `decisions.md, D34` and, on the page itself, `#d34` and `D34`.
fn cited(line: &str, is_page: bool) -> Vec<usize> {
    let marks: &[&str] = match is_page {
        true => &["](#d", "D"],
        false => &["decisions.md#d", "decisions.md, D", "decisions.md) D"],
    };
    let digits = |rest: &str| -> Option<usize> {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    let is_in_word = |at: usize| line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    marks
        .iter()
        .flat_map(|mark| line.match_indices(mark))
        .filter(|(at, mark)| mark.starts_with(']') || !is_in_word(*at))
        .filter_map(|(at, mark)| digits(&line[at + mark.len()..]))
        .collect()
}

#[test]
fn each_decision_has_a_number_a_month_and_a_status() {
    let sources = sources();
    let page = sources.iter().find(|source| source.path == PAGE).expect("the page exists");
    let (found, faults) = decisions(page);
    assert!(found.len() > 50, "only {} decisions were found", found.len());
    assert_none(PAGE, faults);
}

#[test]
fn a_decision_that_is_cited_exists() {
    let sources = sources();
    let page = sources.iter().find(|source| source.path == PAGE).expect("the page exists");
    let (known, _) = decisions(page);
    let mut found = Vec::new();
    for source in &sources {
        for (place, line) in source.lines() {
            let numbers = cited(line, source.path == PAGE);
            let unknown = numbers.into_iter().filter(|number| !known.contains_key(number));
            found.extend(unknown.map(|number| format!("{place}: D{number}")));
        }
    }
    // The examples of citations in this file are among them.
    assert_none("no decision has this number", found);
}

#[test]
fn faults_of_decisions_are_found() {
    let page = |text: &str| Source { path: PAGE.into(), text: text.into() };
    let entry = |number: usize, note: &str| {
        format!("### <a id=\"d{number}\"></a>D{number}. A title\n\n*{note}.* Text.\n\n")
    };
    let right = entry(1, "2026-11, in force") + &entry(2, "2026-11, superseded by D1");
    assert_eq!(decisions(&page(&right)).1, Vec::<String>::new());
    let wrong = [
        entry(2, "2026-11, open"),
        entry(1, "2026, open"),
        entry(1, "2026-11, superseded by D7"),
        entry(1, "2026-11, forgotten"),
        entry(1, "2026-11, open") + &entry(1, "2026-11, open"),
        "### A title\n\nText\n".to_owned(),
    ];
    for text in wrong {
        assert!(!decisions(&page(&text)).1.is_empty(), "{text}");
    }
    assert_eq!(cited("see decisions.md#d34 and docs/decisions.md, D2", false), [34, 2]);
    assert_eq!(cited("[D84](#d84), not CD84", true), [84, 84]);
}
