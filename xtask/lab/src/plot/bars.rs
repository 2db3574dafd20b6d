//! Groups of bars.

use std::fmt::Write as _;

use super::{COLOURS, escaped, number_text};

/// Bars in groups. Each series has a bar in each group, or none.
pub struct Bars<'a> {
    pub title: &'a str,
    /// The quantity that the bars show.
    pub axis: &'a str,
    pub groups: Vec<String>,
    pub series: Vec<(&'a str, Vec<Option<f64>>)>,
}

const WIDTH: f64 = 760.0;
const NAMES: f64 = 190.0;
const BAR: f64 = 15.0;
const HEAD: f64 = 46.0;

impl Bars<'_> {
    /// The picture. It has a ground of its own, so that pages of any colour may show it.
    pub fn svg(&self) -> String {
        let group = BAR * self.series.len() as f64 + 22.0;
        let height = HEAD + group * self.groups.len() as f64 + 10.0;
        let values = self.series.iter().flat_map(|(_, values)| values.iter().flatten());
        let most = values.copied().fold(0.0, f64::max);
        // The value stands behind the bar.
        let scale = if most > 0.0 { (WIDTH - NAMES - 80.0) / most } else { 0.0 };
        let mut text = super::head(WIDTH, height, self.title, self.axis);
        for (place, name) in self.groups.iter().enumerate() {
            let top = HEAD + group * place as f64;
            let _ = writeln!(
                text,
                "<text x=\"10\" y=\"{}\" font-weight=\"bold\">{}</text>",
                top + 12.0,
                escaped(name)
            );
            for (number, (series, values)) in self.series.iter().enumerate() {
                let y = top + 18.0 + BAR * number as f64;
                let base = y + BAR - 5.0;
                let _ = writeln!(
                    text,
                    "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>",
                    NAMES - 6.0,
                    escaped(series)
                );
                let Some(value) = values.get(place).copied().flatten() else {
                    let _ = writeln!(text, "<text x=\"{NAMES}\" y=\"{base}\">not measured</text>");
                    continue;
                };
                let length = value * scale;
                let colour = COLOURS[number % COLOURS.len()];
                let _ = writeln!(
                    text,
                    "<rect x=\"{NAMES}\" y=\"{y}\" width=\"{length:.1}\" height=\"{}\" fill=\"{colour}\"/>",
                    BAR - 3.0
                );
                let _ = writeln!(
                    text,
                    "<text x=\"{:.1}\" y=\"{base}\">{}</text>",
                    NAMES + length + 5.0,
                    number_text(value)
                );
            }
        }
        text.push_str("</svg>\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_is_of_the_greatest_value() {
        let series =
            vec![("one & all", vec![Some(50.0), None]), ("other", vec![Some(100.0), Some(25.0)])];
        let groups = vec!["1".to_owned(), "8 < 9".to_owned()];
        let text = Bars { title: "T", axis: "requests/s", groups, series }.svg();
        let widths: Vec<f64> = text
            .lines()
            .filter(|line| line.starts_with("<rect x="))
            .filter_map(|line| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(widths, [245.0, 490.0, 122.5]);
        assert!(text.contains("one &amp; all") && text.contains("8 &lt; 9"));
        assert_eq!(text.matches("not measured").count(), 1);
        assert_eq!(text.matches("<text").count(), text.matches("</text>").count());
        assert_eq!([0.123, 12.34, 1234.5].map(number_text), ["0.12", "12.3", "1234"]);
    }
}
