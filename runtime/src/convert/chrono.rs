//! chrono's dates and times as those of the module `datetime`. Python's unit is the microsecond: the rest is
//! cut off, and a leap second becomes the last microsecond before it.

use super::sequence::instance_of;
use super::time::{micros, out_of_range, require, timedelta};
use super::{FromPython, ToPython};
use crate::object::Object;
use crate::session::Session;
use crate::{Error, Result};
use chrono::{
    DateTime, Datelike, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeDelta,
    TimeZone, Timelike, Utc,
};

fn refused(expected: &str, object: &Object<'_>, reason: &str) -> Error {
    Error::convert(expected, object.type_name(), reason)
}

fn part<T: for<'any> FromPython<'any>>(object: &Object<'_>, name: &str) -> Result<T> {
    object.getattr(name)?.extract()
}

fn micros_of(time: &impl Timelike) -> u32 {
    (time.nanosecond() / 1000).min(999_999)
}

impl ToPython for TimeDelta {
    /// A `timedelta`. Python raises `OverflowError` above 999,999,999 days.
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        let nanos =
            i128::from(self.num_seconds()) * 1_000_000_000 + i128::from(self.subsec_nanos());
        timedelta(session, nanos.div_euclid(1000))
    }
}

impl FromPython<'_> for TimeDelta {
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let micros = micros(object)?;
        let (seconds, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
        i64::try_from(seconds)
            .ok()
            .and_then(|seconds| Self::new(seconds, u32::try_from(rest).ok()? * 1000))
            .ok_or_else(|| out_of_range("TimeDelta", object))
    }
}

impl ToPython for NaiveDate {
    /// A `date`. Python raises `ValueError` outside of the years 1 to 9999.
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        session.import("datetime")?.call_method("date", (self.year(), self.month(), self.day()))
    }
}

/// The date of a `date` or `datetime`.
fn date(object: &Object<'_>) -> Result<NaiveDate> {
    let (year, month, day) = (part(object, "year")?, part(object, "month")?, part(object, "day")?);
    NaiveDate::from_ymd_opt(year, month, day)
        .ok_or_else(|| refused("date", object, "this day does not exist"))
}

impl FromPython<'_> for NaiveDate {
    /// From a `date`. A `datetime`, which is a subclass, is refused: its time would be lost.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        require(object, "date")?;
        let module = object.session().import("datetime")?;
        if instance_of(object, &module.getattr("datetime")?)? {
            return Err(refused("date", object, "it has a time of the day"));
        }
        date(object)
    }
}

impl ToPython for NaiveTime {
    /// A `time` without a zone.
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        let parts = (self.hour(), self.minute(), self.second(), micros_of(self));
        session.import("datetime")?.call_method("time", parts)
    }
}

/// The time of a `time` or `datetime`.
fn time(object: &Object<'_>) -> Result<NaiveTime> {
    let (hour, minute) = (part(object, "hour")?, part(object, "minute")?);
    let (second, micro) = (part(object, "second")?, part(object, "microsecond")?);
    NaiveTime::from_hms_micro_opt(hour, minute, second, micro)
        .ok_or_else(|| refused("time", object, "this time does not exist"))
}

/// Refuses a time with a zone.
fn naive(object: &Object<'_>, expected: &str) -> Result<()> {
    match object.getattr("tzinfo")?.is_none() {
        true => Ok(()),
        false => Err(refused(expected, object, "it has a time zone")),
    }
}

impl FromPython<'_> for NaiveTime {
    /// From a `time` without a zone.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        require(object, "time")?;
        naive(object, "a time without a zone")?;
        time(object)
    }
}

/// A `datetime` in the zone `tzinfo`.
fn datetime<'session>(
    local: &NaiveDateTime,
    tzinfo: &Object<'session>,
    session: &'session Session,
) -> Result<Object<'session>> {
    let (year, month, day) = (local.year(), local.month(), local.day());
    let (hour, minute, second) = (local.hour(), local.minute(), local.second());
    let parts = (year, month, day, hour, minute, second, micros_of(local), tzinfo);
    session.import("datetime")?.call_method("datetime", parts)
}

impl ToPython for NaiveDateTime {
    /// A `datetime` without a zone.
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        datetime(self, &session.none()?, session)
    }
}

impl FromPython<'_> for NaiveDateTime {
    /// From a `datetime` without a zone.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        require(object, "datetime")?;
        naive(object, "a datetime without a zone")?;
        Ok(date(object)?.and_time(time(object)?))
    }
}

impl<Z: TimeZone> ToPython for DateTime<Z> {
    /// A `datetime` in a `datetime.timezone` of the same offset; in `timezone.utc` if that is zero.
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        let _attached = session.attach();
        let class = session.import("datetime")?.getattr("timezone")?;
        let seconds = self.offset().fix().local_minus_utc();
        let tzinfo = match seconds {
            0 => class.getattr("utc")?,
            _ => class.call((timedelta(session, i128::from(seconds) * 1_000_000)?,))?,
        };
        datetime(&self.naive_local(), &tzinfo, session)
    }
}

impl FromPython<'_> for DateTime<FixedOffset> {
    /// From a `datetime` with a time zone, whose offset at that time it has.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        const EXPECTED: &str = "a datetime with a time zone";
        require(object, "datetime")?;
        let offset = object.call_method("utcoffset", ())?;
        if offset.is_none() {
            return Err(refused(EXPECTED, object, "it has no time zone"));
        }
        let micros = micros(&offset)?;
        if micros % 1_000_000 != 0 {
            return Err(refused(EXPECTED, object, "its offset is not a whole number of seconds"));
        }
        let offset = i32::try_from(micros / 1_000_000).ok().and_then(FixedOffset::east_opt);
        // Python's own offsets are less than a day.
        let offset = offset.ok_or_else(|| out_of_range(EXPECTED, object))?;
        date(object)?
            .and_time(time(object)?)
            .and_local_timezone(offset)
            .single()
            .ok_or_else(|| out_of_range(EXPECTED, object))
    }
}

impl FromPython<'_> for DateTime<Utc> {
    /// From a `datetime` with a time zone: the same point in time.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        DateTime::<FixedOffset>::from_python(object).map(|time| time.to_utc())
    }
}
