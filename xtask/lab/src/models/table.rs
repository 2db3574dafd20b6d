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
    match &row.agreement {
        Ok(found) if found.differences.is_empty() => {
            eprintln!("  the bits of plain python in {} calls", found.calls);
        }
        Ok(found) => {
            for difference in &found.differences {
                eprintln!("  {difference}");
            }
        }
        Err(error) => eprintln!("  {error:#}"),
    }
}

/// Prints the table as Markdown.
pub fn print(rows: &[Row]) {
    println!(
        "| model | implementation | mocks | lines patched | packaging, s | size, MB | opened, s | agrees |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for Row { model, export, agreement } in rows {
        let (opened, agrees) = match agreement {
            Ok(found) if found.differences.is_empty() => (found.opened, "bits"),
            Ok(found) => (found.opened, "differs"),
            Err(_) => (f64::NAN, "fails"),
        };
        println!(
            "| {} | {} | {} | {} | {:.1} | {:.0} | {opened:.2} | {agrees} |",
            model.title,
            model.source,
            export.mocks.len(),
            export.patched,
            export.seconds,
            export.bytes as f64 / 1e6
        );
    }
    let weights: u64 = rows.iter().map(|row| row.export.weights).sum();
    println!("\n{} models, {:.2} GB of weights", rows.len(), weights as f64 / 1e9);
}
