//! The report as a page: a template with the report's data in it.

use super::report::{Report, Verdict, size};

const TEMPLATE: &str = include_str!("page.html");

pub(super) fn html(report: &Report) -> String {
    let strings =
        |list: &[String]| list.iter().map(|text| json(text)).collect::<Vec<_>>().join(",");
    let modules: Vec<String> = report
        .modules
        .iter()
        .map(|module| {
            format!(
                "{{\"name\":{},\"action\":{},\"reason\":{},\"bytes\":{},\"by\":[{}],\"imported\":{},\"false\":{}}}",
                json(&module.name),
                json(&module.action),
                json(&module.reason),
                module.bytes,
                strings(&module.wanted_by),
                module.imported,
                module.is_false,
            )
        })
        .collect();
    let (verdict, detail) = match &report.verdict {
        Verdict::Same => ("loads, and computes the same bits", ""),
        Verdict::Loads => ("loads; there was no example to call it with", ""),
        Verdict::Differs(what) => ("computes something else", what.as_str()),
        Verdict::Fails(error) => ("does not work", error.as_str()),
    };
    let libraries: Vec<String> =
        report.libraries.iter().map(|(name, bytes)| format!("[{},{bytes}]", json(name))).collect();
    let data = format!(
        "{{\"file\":{},\"size\":{},\"storages\":{},\"weights\":{},\"verdict\":{},\"detail\":{},\"complete\":{},\
         \"costs\":[{}],\"proposed\":[{}],\"libraries\":[{}],\"modules\":[{}]}}",
        json(&report.file.display().to_string()),
        json(&size(report.bytes)),
        report.storages.0,
        json(&size(report.storages.1)),
        json(verdict),
        json(detail),
        report.complete,
        strings(&report.large_costs().map(ToString::to_string).collect::<Vec<_>>()),
        strings(&report.proposed_mocks()),
        libraries.join(","),
        modules.join(","),
    );
    TEMPLATE.replace("/*DATA*/null", &data)
}

/// A JSON string that can also stand inside of a script element.
fn json(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
