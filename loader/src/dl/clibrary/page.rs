//! The page made from the table.

use super::table::{Class, TABLE};

/// `docs/c-library.md`.
pub(crate) fn page() -> String {
    let mut page = BEGIN.to_owned();
    for (class, title, words) in CLASSES {
        page += &format!(
            "\n## {title}\n\n{words}\n\n| functions and variables | {} |\n|---|---|\n",
            match class {
                Class::Own => "by",
                Class::Alone => "what is kept",
                Class::Given => "what they have",
                Class::Process => "why, and what to do instead",
            }
        );
        for row in TABLE.iter().filter(|row| row.class == class) {
            let names: Vec<String> = row.names.split(' ').map(|name| format!("`{name}`")).collect();
            page += &format!("| {} | {} |\n", names.join(" "), row.how);
        }
    }
    page
}

const BEGIN: &str = "# What the C library keeps

The C library exists once in a process. Many of its functions keep something between calls: a position in a list, a seed, a
buffer with the last answer, the name that `openlog` was given. A program has that for itself. So a domain has it for itself
too, and what one interpreter sets or gets no other one notices. Each function and each variable of glibc with such state is
in one of four classes. This page is made of a table in the loader (`loader/src/dl/clibrary/table.rs`); a test compares it with glibc's manual
pages.

References of a domain's libraries to the C library's definitions count, and what `dlsym` finds there. A function of the same name that the
program brings, or that a library binds to itself, stays what it is. Libraries that exist once for all domains, and the program, use the C library's own state.

A program whose threads call at once what glibc's manual forbids to call at once (\"MT-Unsafe race\") breaks the same rule here, within its domain.
";

const CLASSES: [(Class, &str, &str); 4] = [
    (
        Class::Own,
        "Each domain has its own",
        "The results are glibc's, also where they stay: an address that a function returns is valid until the domain's next call of \
         that function.",
    ),
    (Class::Alone, "One domain at a time", "A lock keeps the other domains out during a call."),
    (
        Class::Given,
        "Of what they are given",
        "They are left as they are: their state belongs to the caller or to the calling thread.",
    ),
    (Class::Process, "Of the process by nature", "They are left as they are: there is one of it."),
];
