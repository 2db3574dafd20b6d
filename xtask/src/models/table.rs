//! The table of docs/models.md.

use super::Row;

/// One model's figures and errors, as a line of progress.
pub fn explain(row: &Row) {
    let export = &row.export;
    if !export.mocks.is_empty() {
        eprintln!("  {} modules are mocked: {}", export.mocks.len(), export.mocks.join(", "));
    }
    if !export.repeatable {
        eprintln!("  a second call in plain python gives other bits");
    }
    for (policy, result) in &row.agreements {
        match result {
            Ok(found) if found.differences.is_empty() => {
                eprintln!("  {}: the bits of plain python in {} calls", policy.name(), found.calls);
            }
            Ok(found) => {
                for difference in &found.differences {
                    eprintln!("  {}: {difference}", policy.name());
                }
            }
            Err(error) => eprintln!("  {}: {error:#}", policy.name()),
        }
    }
}

/// Prints the table as Markdown.
pub fn print(rows: &[Row]) {
    println!(
        "| model | implementation | mocks | lines patched | packaging, s | size, MB | opened, s | agrees |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for Row { model, export, agreements } in rows {
        let opened = agreements
            .iter()
            .filter_map(|(_, result)| Some(result.as_ref().ok()?.opened))
            .fold(f64::NAN, f64::max);
        let agrees: Vec<String> = agreements
            .iter()
            .map(|(policy, result)| match result {
                Ok(found) if found.differences.is_empty() => format!("{}: bits", policy.name()),
                Ok(_) => format!("{}: differs", policy.name()),
                Err(_) => format!("{}: fails", policy.name()),
            })
            .collect();
        println!(
            "| {} | {} | {} | {} | {:.1} | {:.0} | {opened:.2} | {} |",
            model.title,
            model.source,
            export.mocks.len(),
            export.patched,
            export.seconds,
            export.bytes as f64 / 1e6,
            agrees.join(", ")
        );
    }
    let weights: u64 = rows.iter().map(|row| row.export.weights).sum();
    println!("\n{} models, {:.2} GB of weights", rows.len(), weights as f64 / 1e9);
}
