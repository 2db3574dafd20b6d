//! Figures as people read them.

use std::time::Duration;

/// `0.4 ms`, `12 ms`, `3.2 s`, `5 min 3 s`, `2 h 10 min`, `3 d 4 h`.
pub(super) fn duration(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    let seconds = time.as_secs();
    match seconds {
        0 if milliseconds == 0.0 => "0 ms".to_owned(),
        0 if milliseconds < 1.0 => format!("{milliseconds:.2} ms"),
        0 if milliseconds < 10.0 => format!("{milliseconds:.1} ms"),
        0 => format!("{milliseconds:.0} ms"),
        1..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// In MiB or GiB.
pub(super) fn bytes(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    match mebibytes {
        0.0..10.0 => format!("{mebibytes:.1} MiB"),
        10.0..1024.0 => format!("{mebibytes:.0} MiB"),
        _ => format!("{:.2} GiB", mebibytes / 1024.0),
    }
}

/// A rate, without its unit.
pub(super) fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        0.0..10.0 => format!("{rate:.1}"),
        _ => count(rate.round() as u64),
    }
}

/// A number, its digits in groups of three.
pub(super) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            // A narrow space that does not break.
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// In percent.
pub(super) fn share(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::{bytes, count, duration, rate, share};
    use std::time::Duration;

    #[test]
    fn figures_are_short() {
        let of = |milliseconds: f64| duration(Duration::from_secs_f64(milliseconds / 1000.0));
        assert_eq!(
            [of(0.0), of(0.4), of(3.26), of(420.4)],
            ["0 ms", "0.40 ms", "3.3 ms", "420 ms"]
        );
        assert_eq!([of(3210.0), of(42_000.0), of(303_000.0)], ["3.2 s", "42 s", "5 min 3 s"]);
        assert_eq!([of(7_800_000.0), of(273_600_000.0)], ["2 h 10 min", "3 d 4 h"]);
        assert_eq!(
            [bytes(3_300_000), bytes(400 << 20), bytes(3 << 30)],
            ["3.1 MiB", "400 MiB", "3.00 GiB"]
        );
        assert_eq!([rate(0.0), rate(2.345), rate(1234.5)], ["0", "2.3", "1\u{202f}235"]);
        assert_eq!([count(7), count(1_000_000)], ["7", "1\u{202f}000\u{202f}000"]);
        assert_eq!(share(0.256), "26 %");
    }
}
