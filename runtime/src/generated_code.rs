//! Code that Python has compiled from texts which the standard library generates, one time for all interpreters.
//!
//! A code object belongs to the interpreter that made it; its marshalled form belongs to none. The payload finds and keeps
//! code here (`payload/src/generated.rs`).

use hydrozoa_loader::Leaf;
use std::collections::HashMap;

/// The most bytes of texts and of code that are kept: those of torch are 1.6 MiB. What comes later is compiled by each interpreter.
const MOST: usize = 16 << 20;

/// By text. Nothing is ever taken out: interpreters read code where it lies.
type OfCompiler = HashMap<Box<[u8]>, &'static [u8]>;

#[derive(Default)]
struct Kept {
    /// By the mark of a compiler.
    code: HashMap<Box<[u8]>, OfCompiler>,
    /// Of texts and code.
    bytes: usize,
}

static KEPT: Leaf<Option<Kept>> = Leaf::new(None);

/// The code that a compiler with this mark makes of a text, if somebody has kept it.
pub(crate) fn find(compiler: &[u8], text: &[u8]) -> Option<&'static [u8]> {
    KEPT.with(|kept| kept.as_ref()?.code.get(compiler)?.get(text).copied())
}

/// Keeps the code of a text. If two interpreters race, the first one's stays; the second's is equal.
pub(crate) fn keep(compiler: &[u8], text: &[u8], code: &[u8]) {
    KEPT.with(|kept| {
        let kept = kept.get_or_insert_default();
        let bytes = kept.bytes + text.len() + code.len();
        let of_compiler = kept.code.entry(compiler.into()).or_default();
        if bytes <= MOST && !of_compiler.contains_key(text) {
            of_compiler.insert(text.into(), Box::leak(code.into()));
            kept.bytes = bytes;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_by_compiler_and_text_and_does_not_grow_without_end() {
        keep(b"one", b"text", b"code");
        keep(b"one", b"text", b"other");
        assert_eq!(find(b"one", b"text"), Some(&b"code"[..]));
        assert_eq!((find(b"two", b"text"), find(b"one", b"texts")), (None, None));
        keep(b"one", b"much", &vec![0; MOST]);
        assert_eq!(find(b"one", b"much"), None);
        // Others have room as before.
        keep(b"one", b"little", b"code");
        assert_eq!(find(b"one", b"little"), Some(&b"code"[..]));
    }
}
