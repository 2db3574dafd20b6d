//! The page for people: one file without anything from elsewhere. A browser without JavaScript shows the same, and asks for
//! it again every few seconds.

mod figures;

use super::status::{InstanceStatus, ModelStatus, ProcessMemory, Serving, Status};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use figures::{bytes, count, duration, rate, share};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::sync::LazyLock;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The resources that a browser may load for the page: its own style and script, and the page again.
pub(crate) static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; style-src {}; script-src {}; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
});

/// The page.
pub(crate) fn page(status: &Status) -> String {
    let name = escaped(&status.name);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{name}: models</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<p id=\"notice\" class=\"notice bad\" role=\"status\" hidden></p>\n\
         <div id=\"shown\">\n"
    );
    head(&mut page, status);
    page.push_str("<div class=\"models\">\n");
    for model in &status.models {
        card(&mut page, model, greatest(status));
    }
    page.push_str("</div>\n");
    if status.models.is_empty() {
        page.push_str("<p>The repositories have no models.</p>\n");
    }
    foot(&mut page, status.memory);
    page.push_str("</div>\n</main>\n");
    // Writing to a String cannot fail.
    let _ = write!(page, "<script>{SCRIPT}</script>\n</body>\n</html>\n");
    page
}

/// The most private memory of any interpreter: the bars are parts of it.
fn greatest(status: &Status) -> u64 {
    let serving = status.models.iter().filter_map(|model| model.serving.as_ref());
    let instances = serving.flat_map(|serving| &serving.instances);
    instances.filter_map(|instance| instance.private).max().unwrap_or_default()
}

fn head(page: &mut String, status: &Status) {
    let (class, words) = if status.is_ready { ("good", "ready") } else { ("bad", "not ready") };
    let _ = writeln!(
        page,
        "<header class=\"top\"><h1>{}</h1> <span class=\"quiet\">hydrozoa {}</span> <span class=\"state {class}\">{words}</span></header>",
        escaped(&status.name),
        env!("CARGO_PKG_VERSION")
    );
    let serving = || status.models.iter().filter_map(|model| model.serving.as_ref());
    let per_second: f64 = serving().map(|model| model.latencies.request.rate()).sum();
    let all: usize = serving().map(|model| model.instances.len()).sum();
    let executing: usize = serving().map(Serving::executing).sum();
    let mut list = vec![
        ("up for", duration(status.age)),
        ("requests", format!("{} /s", rate(per_second))),
        ("under way", status.under_way.to_string()),
        ("instances", format!("{executing} of {all} executing")),
    ];
    if let Some(memory) = status.memory {
        list.push(("private memory", bytes(memory.private)));
        list.push(("resident memory", bytes(memory.resident)));
    }
    figures(page, &list);
}

fn figures(page: &mut String, list: &[(&str, String)]) {
    page.push_str("<dl>");
    for (head, figure) in list {
        let _ = write!(page, "<div><dt>{head}</dt><dd>{figure}</dd></div>");
    }
    page.push_str("</dl>\n");
}

fn card(page: &mut String, model: &ModelStatus, greatest: u64) {
    let class = match model.state {
        "READY" => "good",
        "LOADING" => "wait",
        "UNAVAILABLE" => "bad",
        _ => "quiet",
    };
    let version = model
        .serving
        .as_ref()
        .map(|serving| format!(" <span class=\"quiet\">version {}</span>", serving.version));
    let _ = writeln!(
        page,
        "<section class=\"card\"><div class=\"top\"><h2>{}</h2>{} <span class=\"state {class}\">{}</span></div>",
        escaped(&model.name),
        version.unwrap_or_default(),
        model.state.to_lowercase()
    );
    if !model.reason.is_empty() {
        let _ = writeln!(page, "<pre class=\"reason\">{}</pre>", escaped(&model.reason));
    }
    if let Some(serving) = &model.serving {
        does(page, serving);
        instances(page, serving, greatest);
    }
    page.push_str("</section>\n");
}

fn does(page: &mut String, model: &Serving) {
    let (statistics, request) = (&model.statistics, &model.latencies.request);
    let took = |time| if request.count > 0 { duration(time) } else { "\u{2013}".to_owned() };
    let waits = match model.longest_wait {
        Some(longest) => format!("{} ({})", model.waiting, duration(longest)),
        None => model.waiting.to_string(),
    };
    let list = [
        ("requests", format!("{} /s", rate(request.rate()))),
        ("median", took(request.p50)),
        ("99 %", took(request.p99)),
        ("queue", waits),
        ("executing", format!("{} of {}", model.executing(), model.instances.len())),
        ("served", count(statistics.success)),
        ("failed", count(statistics.failed)),
    ];
    figures(page, &list);
    let _ = writeln!(
        page,
        "<svg class=\"trend\" viewBox=\"0 0 89 34\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"requests a second, \
         lately\" data-key=\"{}/{}\" data-value=\"{}\"><path d=\"\"/></svg>",
        escaped(&model.name),
        model.version,
        request.rate()
    );
}

fn instances(page: &mut String, model: &Serving, greatest: u64) {
    page.push_str(
        "<table><thead><tr><th scope=\"col\">instance</th><th scope=\"col\">does</th><th scope=\"col\">load</th>\
         <th scope=\"col\">waited for GIL</th><th scope=\"col\">restarts</th><th scope=\"col\">private memory</th></tr></thead><tbody>\n",
    );
    for instance in &model.instances {
        row(page, instance, greatest);
    }
    page.push_str("</tbody></table>\n");
}

fn row(page: &mut String, instance: &InstanceStatus, greatest: u64) {
    let does = &instance.does;
    let now = match does.executing {
        Some(time) => format!("{} for {}", plural(does.requests, "request"), duration(time)),
        None => "idle".to_owned(),
    };
    let memory = match instance.private {
        Some(private) => {
            let part = private as f64 / greatest.max(1) as f64;
            format!("<span>{}{}</span>", bytes(private), bar(part))
        }
        None => "\u{2013}".to_owned(),
    };
    let _ = write!(page, "<tr><td>{}</td>", escaped(&does.name));
    for (head, cell) in [
        ("does", now),
        ("load", format!("<span>{}{}</span>", share(does.load), bar(does.load))),
        ("waited for GIL", duration(does.gil_wait)),
        ("restarts", does.restarts.to_string()),
        ("private memory", memory),
    ] {
        let _ = write!(page, "<td data-head=\"{head}\">{cell}</td>");
    }
    page.push_str("</tr>\n");
}

fn bar(part: f64) -> String {
    let width = (part.clamp(0.0, 1.0) * 100.0).round();
    format!(
        "<svg class=\"bar\" viewBox=\"0 0 100 4\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"all\" \
         width=\"100\" height=\"4\"/><rect class=\"part\" width=\"{width}\" height=\"4\"/></svg>"
    )
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

fn foot(page: &mut String, memory: Option<ProcessMemory>) {
    let measured = match memory {
        Some(memory) => format!("Memory was measured {} ago.", duration(memory.age)),
        None => "Memory is being measured.".to_owned(),
    };
    let _ = writeln!(
        page,
        "<footer>Rates, latencies and loads are those of the last minute. {measured} The same as JSON: <code>/status</code>; \
         for Prometheus: <code>/metrics</code>.</footer>"
    );
}

/// A text that a folder or a model's author has chosen, as a text of the page.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(character),
        }
    }
    safe
}
