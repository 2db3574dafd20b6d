//! The names in a signature's text.

/// The parameters' names in `(x, /, by=2.0, *rest, **names)`, without stars. `None` if it has no parentheses around it.
pub fn names(text: &str) -> Option<Vec<String>> {
    let inside = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let names = parts(inside).into_iter().map(name).filter(|name| !name.is_empty() && name != "/");
    Some(names.collect())
}

/// The text between commas that are in no brackets and no quotes.
fn parts(inside: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    let mut quote = None;
    let mut characters = inside.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') => drop(characters.next()),
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(&inside[begin..at]);
                begin = at + 1;
            }
            (None, _) => {}
        }
    }
    parts.push(&inside[begin..]);
    parts
}

/// The name of one parameter: what is before its annotation and its default.
fn name(part: &str) -> String {
    let name = part.split([':', '=']).next().unwrap_or_default();
    name.trim().trim_start_matches('*').trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn names_stand_between_commas() {
        let found = |text| names(text).unwrap().join(" ");
        assert_eq!(found("()"), "");
        assert_eq!(found("(x)"), "x");
        assert_eq!(found("(x, /, by=2.0, *, flag=None,)"), "x by flag");
        assert_eq!(found("(a, *rest, b: int = 3, **names)"), "a rest b names");
        assert_eq!(found("(a=(1, 2), b='x, y', c=[{}, ')'], d=\"\\\", e\")"), "a b c d");
        assert!(names("x, y").is_none());
    }
}
