//! Lines over an axis of numbers.

use std::fmt::Write as _;

use super::{COLOURS, escaped};

/// Lines. Each series has its points in the order in which they are joined.
pub struct Lines<'a> {
    pub title: &'a str,
    /// The labels of the axes.
    pub axes: [&'a str; 2],
    pub series: Vec<(&'a str, Vec<(f64, f64)>)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
/// The plot's own edges within the picture.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 360.0;

impl Lines<'_> {
    /// The picture. Both axes begin at 0.
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|(_, points)| points);
        let [across, up] = [
            ticks(points().map(|point| point.0).fold(0.0, f64::max)),
            ticks(points().map(|point| point.1).fold(0.0, f64::max)),
        ];
        let x = |value: f64| LEFT + (RIGHT - LEFT) * value / across.end();
        let y = |value: f64| BOTTOM - (BOTTOM - TOP) * value / up.end();
        let mut text = super::head(WIDTH, HEIGHT, self.title, self.axes[1]);
        let _ = writeln!(
            text,
            "<text x=\"{RIGHT}\" y=\"{}\" fill=\"#555555\" text-anchor=\"end\">{}</text>",
            BOTTOM + 32.0,
            escaped(self.axes[0])
        );
        for value in across.values() {
            let at = x(value);
            let _ = writeln!(
                text,
                "<path d=\"M{at:.1} {TOP}V{BOTTOM}\" stroke=\"#dddddd\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{value}</text>",
                BOTTOM + 16.0
            );
        }
        for value in up.values() {
            let at = y(value);
            let _ = writeln!(
                text,
                "<path d=\"M{LEFT} {at:.1}H{RIGHT}\" stroke=\"#dddddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
                LEFT - 6.0,
                at + 4.0
            );
        }
        for (number, (name, points)) in self.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let path: Vec<_> =
                points.iter().map(|&(a, b)| format!("{:.1},{:.1}", x(a), y(b))).collect();
            let _ = writeln!(
                text,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.join(" ")
            );
            let line = TOP + 8.0 + 18.0 * number as f64;
            let _ = writeln!(
                text,
                "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"4\" fill=\"{colour}\"/><text x=\"{}\" y=\"{line}\">{}</text>",
                RIGHT + 14.0,
                line - 6.0,
                RIGHT + 34.0,
                escaped(name)
            );
        }
        text.push_str("</svg>\n");
        text
    }
}

/// The numbers at an axis: multiples of a step.
#[derive(Debug, PartialEq)]
struct Ticks {
    step: f64,
    count: usize,
}

/// Between three and six steps of 1, 2 or 5 times a power of ten, that reach `most`.
fn ticks(most: f64) -> Ticks {
    let most = if most > 0.0 { most } else { 1.0 };
    let power = 10f64.powf((most / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = steps.into_iter().find(|step| most / step <= 5.0).unwrap_or(steps[3]);
    Ticks { step, count: (most / step).ceil() as usize }
}

impl Ticks {
    fn end(&self) -> f64 {
        self.step * self.count as f64
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        (0..=self.count).map(|number| self.step * number as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axes_reach_the_greatest_values() {
        assert_eq!(ticks(168.0), Ticks { step: 50.0, count: 4 });
        assert_eq!(ticks(5.0), Ticks { step: 1.0, count: 5 });
        assert_eq!(ticks(0.0).end(), 1.0);
        for most in [0.3, 1.0, 7.0, 11.0, 99.0, 2048.0] {
            let ticks = ticks(most);
            assert!(ticks.end() >= most && (2..=5).contains(&ticks.count), "{most}: {ticks:?}");
        }
    }

    #[test]
    fn points_stand_where_their_values_say() {
        let series = vec![("a < b", vec![(0.0, 0.0), (100.0, 5.0)])];
        let text = Lines { title: "T", axes: ["x", "y"], series }.svg();
        let points = format!("points=\"{LEFT:.1},{BOTTOM:.1} {RIGHT:.1},{TOP:.1}\"");
        assert!(text.contains(&points), "{text}");
        assert!(text.contains("a &lt; b"));
    }
}
