//! Whether the text of a licence is an expression of SPDX (<https://spdx.dev/learn/handling-license-info/>).

/// Identifiers that packages of Python use. A text with another one is a name, which is always true.
const KNOWN: [&str; 33] = [
    "0BSD",
    "AGPL-3.0-only",
    "AGPL-3.0-or-later",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC-BY-4.0",
    "CC0-1.0",
    "GPL-2.0-only",
    "GPL-2.0-or-later",
    "GPL-3.0-only",
    "GPL-3.0-or-later",
    "HPND",
    "ISC",
    "LGPL-2.1-only",
    "LGPL-2.1-or-later",
    "LGPL-3.0-only",
    "LGPL-3.0-or-later",
    "MIT",
    "MIT-0",
    "MIT-CMU",
    "MPL-2.0",
    "PSF-2.0",
    "Python-2.0",
    "Python-2.0.1",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "ZPL-2.1",
    "Zlib",
    "GCC-exception-3.1",
    "LLVM-exception",
];

/// Whether a text is an expression of known identifiers.
pub(super) fn is_expression(text: &str) -> bool {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    // Identifiers and operators take turns.
    let mut wants_identifier = true;
    let mut open = 0_usize;
    for word in spaced.split_whitespace() {
        match word {
            "(" if wants_identifier => open += 1,
            ")" if !wants_identifier && open > 0 => open -= 1,
            "AND" | "OR" | "WITH" if !wants_identifier => wants_identifier = true,
            word if wants_identifier && KNOWN.contains(&word) => wants_identifier = false,
            _ => return false,
        }
    }
    !wants_identifier && open == 0
}

#[cfg(test)]
mod tests {
    use super::is_expression;

    #[test]
    fn expressions_are_told_from_names() {
        for text in [
            "MIT",
            "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0",
            "(MIT OR Apache-2.0) AND PSF-2.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_expression(text), "{text}");
        }
        for text in ["", "BSD", "MIT License", "Apache 2.0", "MIT AND", "(MIT", "MIT)", "MIT MIT"] {
            assert!(!is_expression(text), "{text}");
        }
    }
}
