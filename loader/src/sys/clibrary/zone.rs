//! Time zones of domains: the meaning of `TZ` (tzset(3)), where it is not that of the process's own `TZ`.
//!
//! The C library has one time zone. The crate tz reads files of zones (RFC 9636) and rules of POSIX. Values that are neither mean what they mean to
//! glibc's time/tzset.c (`tzset_internal`, `__tzset_parse_tz`), and local times that are none or two what they mean to its time/mktime.c.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_long};
use std::iter;

use tz::timezone::{LocalTimeType, TransitionRule};
use tz::{TimeZone, TimeZoneSettings};

use crate::sys::lock::LeafLock;

/// Where files of zones lie (time/tzfile.c, `TZDIR`).
const FOLDERS: [&str; 1] = ["/usr/share/zoneinfo"];

/// The rules of a zone with a daylight saving time that gives none (time/tzset.c, `TZDEFRULES`).
const DEFAULT_RULES: &str = ",M3.2.0,M11.1.0";

/// The name of the zone where nothing is known.
const UTC: &CStr = c"UTC";

const HOUR: i64 = 60 * 60;
const DAY: i64 = 24 * HOUR;

/// How far apart, and in which time around a local time, glibc looks for one of the kind that is asked for (time/mktime.c, `stride` and
/// `duration_max`).
const STRIDE: i64 = 601_200;
const FARTHEST: i64 = 536_454_000;

/// A time zone. It stays for ever, and so do the names in it: structures of any age may refer to them.
#[derive(Debug)]
pub(super) struct Zone {
    /// The value of `TZ`; none if it is not set.
    value: Option<CString>,
    rules: TimeZone,
    names: Vec<&'static CStr>,
    /// The values of `tzname`, `timezone` and `daylight`: of the last standard and daylight saving times of the zone.
    pub shown: ([&'static CStr; 2], c_long, bool),
}

/// The local time at some moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LocalTime {
    /// Seconds east of UTC.
    pub offset: i64,
    pub is_dst: bool,
    pub name: &'static CStr,
}

/// The zones that domains have had, by their values.
static ZONES: LeafLock<BTreeMap<Option<CString>, &'static Zone>> = LeafLock::new(BTreeMap::new());

impl Zone {
    /// The zone for a value of `TZ`.
    pub(super) fn of(value: Option<CString>) -> &'static Zone {
        if let Some(known) = ZONES.with(|zones| zones.get(&value).copied()) {
            return known;
        }
        let new: &'static Zone = Box::leak(Box::new(Zone::new(value.clone())));
        // Another thread may have been first.
        ZONES.with(|zones| *zones.entry(value).or_insert(new))
    }

    fn new(value: Option<CString>) -> Zone {
        let rules = rules(value.as_deref());
        let mut names: Vec<&str> =
            types(&rules).map(LocalTimeType::time_zone_designation).collect();
        names.sort_unstable();
        names.dedup();
        let name = |name| {
            &*Box::leak(CString::new(name).expect("letters, digits and signs").into_boxed_c_str())
        };
        let names = names.into_iter().map(name).collect();
        let mut zone = Zone { value, names, shown: ([UTC; 2], 0, false), rules };
        // As `tzset` leaves them. In glibc, a later conversion may change them.
        let last = |wanted| {
            let kind = types(&zone.rules).filter(|kind| kind.is_dst() == wanted).last();
            kind.map(|kind| zone.local(kind))
        };
        let (standard, daylight) = (last(false), last(true));
        let name = standard.or(daylight).map_or(UTC, |local| local.name);
        let west = -standard.map_or(0, |local| local.offset);
        zone.shown = ([name, daylight.map_or(name, |local| local.name)], west, daylight.is_some());
        zone
    }

    pub(super) fn value(&self) -> Option<&CStr> {
        self.value.as_deref()
    }

    /// The local time at a moment, in seconds since 1970.
    pub(super) fn at(&self, time: i64) -> LocalTime {
        let last = || types(&self.rules).last();
        let found = self.rules.find_local_time_type(time).ok().or_else(last);
        found.map_or(LocalTime { offset: 0, is_dst: false, name: UTC }, |kind| self.local(kind))
    }

    fn local(&self, kind: &LocalTimeType) -> LocalTime {
        let name = kind.time_zone_designation().as_bytes();
        let name = self.names.iter().find(|known| known.to_bytes() == name).copied();
        let offset = kind.ut_offset().into();
        LocalTime { offset, is_dst: kind.is_dst(), name: name.unwrap_or(UTC) }
    }

    /// The moment of a local time, which is given as the moment when it is in UTC. Where there are two, or none, `is_dst` says which is meant;
    /// without it, it is the one before the clock is set back, or the time that the clock would show had it not been set.
    pub(super) fn moment(&self, fields: i64, is_dst: Option<bool>) -> i64 {
        let around = [-DAY, 0, DAY].map(|distance| self.at(fields.saturating_add(distance)));
        let mut found: Vec<(i64, bool)> = around
            .iter()
            .map(|local| (fields.saturating_sub(local.offset), local.offset))
            .filter(|(time, offset)| self.at(*time).offset == *offset)
            .map(|(time, _)| (time, self.at(time).is_dst))
            .collect();
        found.sort_unstable();
        let first = found.first().map(|(time, _)| *time);
        let guess = first.unwrap_or_else(|| fields.saturating_sub(around[0].offset));
        let Some(wanted) = is_dst else { return guess };
        if let Some((time, _)) = found.iter().find(|(_, is_dst)| *is_dst == wanted) {
            return *time;
        }
        let distances = iter::successors(Some(STRIDE), |last| last.checked_add(STRIDE))
            .take_while(|distance| *distance < FARTHEST)
            .flat_map(|distance| [-distance, distance]);
        let nearest = distances
            .map(|distance| self.at(guess.saturating_add(distance)))
            .find(|local| local.is_dst == wanted);
        match nearest {
            Some(local) => fields.saturating_sub(local.offset),
            // glibc takes a daylight saving time to be an hour ahead.
            None => guess.saturating_add(if wanted { -HOUR } else { HOUR }),
        }
    }
}

/// The local times of a zone: those of the rule for times behind the file's, all, and those that clocks are set to, the later ones last.
fn types(rules: &TimeZone) -> impl Iterator<Item = &LocalTimeType> {
    let rules = rules.as_ref();
    let ruled = match rules.extra_rule() {
        Some(TransitionRule::Alternate(rule)) => [Some(rule.std()), Some(rule.dst())],
        Some(TransitionRule::Fixed(kind)) => [Some(kind), None],
        None => [None, None],
    };
    let kinds = rules.local_time_types();
    let set = rules.transitions().iter().map(|one| &kinds[one.local_time_type_index()]);
    ruled.into_iter().flatten().chain(kinds).chain(set)
}

fn rules(value: Option<&CStr>) -> TimeZone {
    let settings = TimeZoneSettings::new(&FOLDERS, TimeZoneSettings::DEFAULT_READ_FILE_FN);
    let Some(value) = value else {
        return settings.parse_local().unwrap_or_else(|_| TimeZone::utc());
    };
    let text = value.to_string_lossy();
    let text = text.strip_prefix(':').unwrap_or(&text);
    if text.is_empty() {
        return utc(b"UTC");
    }
    let parsed = settings.parse_posix_tz(text);
    let parsed = parsed.or_else(|_| settings.parse_posix_tz(&format!("{text}{DEFAULT_RULES}")));
    // glibc reads a name at the begin, and takes UTC for the rest.
    parsed.unwrap_or_else(|_| {
        let letters = text.bytes().take_while(u8::is_ascii_alphabetic).take(7).collect::<Vec<_>>();
        utc(if letters.len() < 3 { b"UTC" } else { &letters })
    })
}

/// UTC under a name.
fn utc(name: &[u8]) -> TimeZone {
    let kind = LocalTimeType::new(0, false, Some(name));
    let zone = kind.map(|kind| TimeZone::new(Vec::new(), vec![kind], Vec::new(), None));
    zone.ok().and_then(Result::ok).unwrap_or_else(TimeZone::utc)
}
