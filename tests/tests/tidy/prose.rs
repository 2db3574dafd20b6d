//! Patterns of prose that are hard to read: a sentence whose subject is "Who" or "What", and "is no" in place of "is not a".

use crate::sources::{Source, assert_none, sources};

/// Pages that commands write, and lists of names.
const WRITTEN: [&str; 5] = [
    "docs/interface/",
    "docs/loader-differential.md",
    "docs/loader-conformance.md",
    "docs/models.md",
    "LICENSE",
];

/// The lines of prose of a source: comments of Rust and Python, and documents outside of their code.
fn prose(source: &Source) -> Vec<(String, &str)> {
    let is_page = source.path.ends_with(".md");
    let mut in_code = false;
    source
        .lines()
        .filter_map(|(place, line)| {
            let line = line.trim();
            if is_page {
                in_code ^= line.starts_with("```");
                return (!in_code).then_some((place, line));
            }
            let comment = if source.path.ends_with(".rs") {
                line.strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']))
            } else if source.path.ends_with(".py") {
                line.strip_prefix('#')
            } else {
                None
            };
            Some((place, comment?.trim()))
        })
        .collect()
}

/// Whether a sentence begins with such a word and is not a question.
fn has_subject(line: &str) -> bool {
    let begins = |word: &str| {
        let starts = line.match_indices(word).map(|(at, _)| at);
        let found = starts.filter(|at| {
            let before = &line[..*at];
            before.is_empty()
                || [". ", "! ", "? ", ": ", "; ", "| "].iter().any(|end| before.ends_with(end))
        });
        found
            .map(|at| &line[at..])
            .any(|rest| !rest.split(['.', '|']).next().unwrap_or(rest).contains('?'))
    };
    ["Who ", "What ", "Whoever ", "Whatever "].into_iter().any(begins)
}

/// Whether a line says what something "is no", but for "there is no".
fn is_no(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    words.windows(3).enumerate().any(|(at, three)| {
        let before = if at == 0 { "" } else { words[at - 1] };
        let next = three[2].trim_end_matches(|c: char| !c.is_alphabetic());
        ["is", "are", "was", "were"].contains(&three[0])
            && three[1] == "no"
            && !before.trim_start_matches(['"', '(', '`']).eq_ignore_ascii_case("there")
            && !["longer", "more", "less", "later"].contains(&next)
    })
}

#[test]
fn sentences_name_who_acts() {
    assert!(has_subject("Who asks waits.") && has_subject("It ends. What is left is freed."));
    assert!(!has_subject("What happens then? It ends.") && !has_subject("It says what it does."));
    assert!(
        is_no("This is no folder.") && !is_no("There is no folder.") && !is_no("It is no longer.")
    );
    let found = sources()
        .iter()
        .filter(|source| !WRITTEN.iter().any(|written| source.path.starts_with(written)))
        .flat_map(|source| {
            let bad = |(_, line): &(String, &str)| has_subject(line) || is_no(line);
            let lines: Vec<_> = prose(source).into_iter().filter(bad).collect();
            lines.into_iter().map(|(place, line)| format!("{place}: {line}")).collect::<Vec<_>>()
        })
        .collect();
    assert_none("a sentence names its actor, and says \"is not a\"", found);
}
