//! Texts of others as one line that shows what is in it.

use std::borrow::Cow;

/// A text as one line, for a log or a message: characters that would begin a line, command a terminal, or change the order or the
/// look of what stands beside them are written as `\n` or `\u{202e}`. Tabs stay.
///
/// ```
/// # use hydrozoa_models::escaped;
/// assert_eq!(escaped("a\nb \u{202e}\u{1b}[2J"), r"a\nb \u{202e}\u{1b}[2J");
/// ```
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(misleads) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            other if misleads(other) => safe.extend(other.escape_unicode()),
            other => safe.push(other),
        }
    }
    Cow::Owned(safe)
}

/// Whether a reader of a line would not see what is in it. The formatting characters are those of Unicode's algorithm for texts in two
/// directions (UAX #9, section 2), the separators that begin a line or a paragraph, and those without width.
pub(crate) fn misleads(character: char) -> bool {
    match character {
        '\t' => false,
        '\u{61c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' => true,
        '\u{e0000}'..='\u{e007f}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::escaped;
    use std::borrow::Cow;

    #[test]
    fn a_text_of_others_is_one_line_that_hides_nothing() {
        for (text, line) in [
            ("plain \u{e9}\u{5b57}\u{1f600} \\n \t", "plain \u{e9}\u{5b57}\u{1f600} \\n \t"),
            ("a\r\nb", r"a\r\nb"),
            ("\0\u{7f}\u{85}\u{9b}", r"\u{0}\u{7f}\u{85}\u{9b}"),
            ("\u{2028}\u{2066}x\u{2069}", r"\u{2028}\u{2066}x\u{2069}"),
            ("\u{1b}]0;title\u{7}", r"\u{1b}]0;title\u{7}"),
        ] {
            assert_eq!(escaped(text), line);
        }
        assert!(matches!(escaped("as it is"), Cow::Borrowed(_)));
    }
}
