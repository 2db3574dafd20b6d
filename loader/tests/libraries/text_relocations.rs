//! Text relocations: the pages that they write are each replica's own, all others stay the file's, and no page
//! is ever writable and executable at once.

use std::path::Path;

use hydrozoa_testkit::libraries::{Workshop, mappings};

use super::replicas::{call, domains, open_in};

/// Code that is not position-independent, at the beginning and at the end of a mebibyte of other code.
const SOURCE: &str = "
    int counter = 40;
    __attribute__((section(\".text.a\"))) int step(void) { return ++counter; }
    asm(\".section .text.b, \\\"ax\\\", @progbits\\n.globl filler\\nfiller: .fill 0x100000, 1, 0x90\\nret\\n.text\");
    __attribute__((section(\".text.c\"))) int peek(void) { return counter; }";
const OPTIONS: [&str; 5] =
    ["-fno-pic", "-mcmodel=large", "-fno-toplevel-reorder", "-Wl,-z,notext", "-Wl,--warn-textrel"];

/// The figure `name` of `/proc/self/smaps` for each mapping of `path` with these rights, in bytes.
fn figures(path: &Path, rights: &str, name: &str) -> Vec<usize> {
    let path = path.canonicalize().unwrap();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut counts = false;
    let mut figures = Vec::new();
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if first.contains('-') && second.len() == 4 {
            counts = second == rights && line.ends_with(path.to_str().unwrap());
        } else if counts && first.strip_suffix(':') == Some(name) {
            figures.push(second.parse::<usize>().unwrap() * 1024);
        }
    }
    figures
}

#[test]
fn text_relocations_make_their_own_pages_private_and_no_others() {
    let shop = Workshop::new("text-relocations");
    let path = shop.build("libabsolute.so", SOURCE, &OPTIONS);
    let domains = domains(3);
    let inspection = domains[0].inspect(&path).unwrap();
    assert!((0x1000..0x5000).contains(&inspection.cost.relocated_text), "{inspection:?}");
    assert!(inspection.cost.at_load() > inspection.cost.relocated_text);
    assert!(inspection.cost.shared >= 0xf8000, "{inspection:?}");

    let libraries = open_in(&domains, &path);
    let steps = [0, 0, 1].map(|index| call(&libraries[index], "step"));
    assert_eq!(steps, [41, 42, 41]);
    assert_eq!([0, 1, 2].map(|index| call(&libraries[index], "peek")), [42, 41, 40]);

    assert!(!mappings(&path).iter().any(|line| line.contains("wx")), "{:?}", mappings(&path));
    let mut private = figures(&path, "r-xp", "Anonymous");
    private.retain(|&bytes| bytes > 0);
    assert_eq!(private, [inspection.cost.relocated_text; 3], "{:?}", mappings(&path));
}

#[test]
fn a_file_that_announces_no_text_relocations_has_no_private_text() {
    let shop = Workshop::new("no-text-relocations");
    let path = shop.build("libplain.so", "int x; int *p = &x; int f(void) { return *p; }", &[]);
    let inspection = domains(1)[0].inspect(&path).unwrap();
    assert_eq!((inspection.cost.relocated_text, inspection.executable_stack), (0, false));
    let asking = shop.build("libasking.so", "int f(void) { return 1; }", &["-Wl,-z,execstack"]);
    assert!(domains(1)[0].inspect(&asking).unwrap().executable_stack);
}
