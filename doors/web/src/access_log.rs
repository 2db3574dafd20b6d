//! The access log: a line for each request.

use crate::forwarded::Client;
use crate::response::Watch;
use hydrozoa_server::Log;
use hyper::header::{HeaderValue, REFERER, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Uri, Version};
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFormat {
    /// That of Apache and nginx.
    Combined,
    /// An object of JSON.
    Json,
}

/// Where lines go, and how they look.
#[derive(Clone, Debug)]
pub struct AccessLog {
    log: Log,
    format: AccessFormat,
}

impl AccessLog {
    /// A line of `format` for each request. A log never makes a request wait: lines that its reader does not take are lost.
    pub fn new(log: Log, format: AccessFormat) -> Self {
        Self { log, format }
    }
}

/// One request. It is logged when this is dropped.
pub(crate) struct Record {
    log: AccessLog,
    began: Instant,
    client: Client,
    method: Method,
    uri: Uri,
    version: Version,
    referrer: Option<HeaderValue>,
    agent: Option<HeaderValue>,
    /// `None` if the client has gone before it had an answer.
    pub(crate) status: Option<StatusCode>,
    bytes: usize,
}

impl Record {
    pub(crate) fn new(log: &AccessLog, parts: &Parts, client: Client) -> Self {
        let header = |name| parts.headers.get(name).cloned();
        Self {
            log: log.clone(),
            began: Instant::now(),
            client,
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            version: parts.version,
            referrer: header(REFERER),
            agent: header(USER_AGENT),
            status: None,
            bytes: 0,
        }
    }

    /// 499, as nginx has it, for a client that has gone.
    fn status(&self) -> u16 {
        self.status.map_or(499, |status| status.as_u16())
    }

    fn target(&self) -> &str {
        self.uri.path_and_query().map_or("*", |target| target.as_str())
    }

    fn combined(&self, at: SystemTime) -> String {
        let mut line = String::with_capacity(256);
        self.client.write_address(&mut line);
        if line.is_empty() {
            line.push('-');
        }
        let (method, target, version) = (&self.method, self.target(), self.version);
        // A String takes everything.
        let _ = write!(line, " - - [{}] \"{method} ", time(at));
        quoted(&mut line, target.as_bytes());
        let _ = write!(line, " {version:?}\" {} {} \"", self.status(), self.bytes);
        for (header, end) in [(&self.referrer, "\" \""), (&self.agent, "\"")] {
            match header {
                Some(value) => quoted(&mut line, value.as_bytes()),
                None => line.push('-'),
            }
            line.push_str(end);
        }
        line
    }

    fn json(&self, at: SystemTime, took: Duration) -> String {
        let mut client = String::new();
        self.client.write_address(&mut client);
        let text = |value: &Option<HeaderValue>| {
            value.as_ref().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        serde_json::json!({
            "time": rfc3339(at),
            "client": client,
            "method": self.method.as_str(),
            "target": self.target(),
            "protocol": format!("{:?}", self.version),
            "status": self.status(),
            "bytes": self.bytes,
            "seconds": (took.as_secs_f64() * 1e6).round() / 1e6,
            "referrer": text(&self.referrer),
            "user_agent": text(&self.agent),
        })
        .to_string()
    }
}

impl Watch for Record {
    fn sent(&mut self, bytes: usize) {
        self.bytes += bytes;
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let line = match self.log.format {
            AccessFormat::Combined => self.combined(SystemTime::now()),
            AccessFormat::Json => self.json(SystemTime::now(), self.began.elapsed()),
        };
        // A log takes every line, and loses those for which it has no room.
        drop(self.log.log.write_all(line.as_bytes()));
    }
}

/// Adds text of a client that cannot end the quotes around it. The log escapes control characters.
fn quoted(line: &mut String, text: &[u8]) {
    for letter in String::from_utf8_lossy(text).chars() {
        if matches!(letter, '"' | '\\') {
            line.push('\\');
        }
        line.push(letter);
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Year, month from 1, day, hour, minute and second in UTC.
fn parts(at: SystemTime) -> (i64, usize, i64, i64, i64, i64) {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    let (days, second) = (seconds.div_euclid(86400), seconds.rem_euclid(86400));
    // Days since 1 March of the year 0, in eras of 400 years (the proleptic Gregorian calendar).
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month as usize, day, second / 3600, second / 60 % 60, second % 60)
}

fn time(at: SystemTime) -> String {
    let (year, month, day, hour, minute, second) = parts(at);
    format!("{day:02}/{}/{year}:{hour:02}:{minute:02}:{second:02} +0000", MONTHS[month - 1])
}

fn rfc3339(at: SystemTime) -> String {
    let (year, month, day, hour, minute, second) = parts(at);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(at(seconds)), text);
        }
        assert_eq!(time(at(1_709_164_801)), "29/Feb/2024:00:00:01 +0000");
    }

    #[test]
    fn a_client_cannot_end_the_quotes_around_its_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Log::to_file(&path).unwrap();
        let request = hyper::Request::builder().uri("/a?b").header("user-agent", "x\" \\y");
        let parts = request.body(()).unwrap().into_parts().0;
        for format in [AccessFormat::Combined, AccessFormat::Json] {
            let mut record =
                Record::new(&AccessLog::new(log.clone(), format), &parts, Client::Local);
            record.sent(3);
        }
        assert!(log.flush_within(Duration::from_secs(10)));
        let text = std::fs::read_to_string(&path).unwrap();
        let (first, second) = text.split_once('\n').unwrap();
        assert!(
            first.starts_with("- - - [") && first.contains("\"GET /a?b HTTP/1.1\" 499 3 \"-\"")
        );
        assert!(first.ends_with(r#""x\" \\y""#) || first.contains(r#"x\\" "#), "{first}");
        assert!(
            second.contains(r#""status":499"#) && second.contains(r#""target":"/a?b""#),
            "{second}"
        );
    }
}
