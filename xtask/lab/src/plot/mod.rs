//! Plots as SVG. Each has a ground of its own, so that pages of any colour may show it.

mod bars;
mod lines;

pub use bars::Bars;
pub use lines::Lines;

/// Colours that people with a weak sense of red or green tell apart (Okabe and Ito, 2008), and one more.
const COLOURS: [&str; 8] =
    ["#d55e00", "#e69f00", "#cc79a7", "#0072b2", "#009e73", "#56b4e9", "#777777", "#000000"];

/// The begin of a picture: its ground, its title, and what its values are.
fn head(width: f64, height: f64, title: &str, axis: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"18\" font-size=\"14\" font-weight=\"bold\">{}</text>\n\
         <text x=\"10\" y=\"36\" fill=\"#555555\">{}</text>\n",
        escaped(title),
        escaped(axis)
    )
}

/// Three digits or more.
pub fn number_text(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
