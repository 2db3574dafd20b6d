//! Spans and points of time: `timedelta` and `datetime`, in microseconds.

use super::sequence::instance_of;
use super::{FromPython, ToPython};
use crate::object::Object;
use crate::session::Session;
use crate::{Error, Result};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MICROS_A_SECOND: i128 = 1_000_000;
const MICROS_A_DAY: i128 = 86_400 * MICROS_A_SECOND;

/// A `timedelta`. Python raises `OverflowError` above 999,999,999 days.
pub(super) fn timedelta(session: &Session, micros: i128) -> Result<Object<'_>> {
    let days = micros.div_euclid(MICROS_A_DAY);
    let rest = micros.rem_euclid(MICROS_A_DAY);
    let parts = (days, rest / MICROS_A_SECOND, rest % MICROS_A_SECOND);
    session.import("datetime")?.call_method("timedelta", parts)
}

/// The microseconds of a `timedelta`.
pub(super) fn micros(object: &Object<'_>) -> Result<i128> {
    require(object, "timedelta")?;
    // A subclass may answer anything.
    let part = |name: &str, unit: i128| -> Result<i128> {
        let count = object.getattr(name)?.extract::<i128>()?;
        count.checked_mul(unit).ok_or_else(|| out_of_range("timedelta", object))
    };
    let parts = [part("days", MICROS_A_DAY)?, part("seconds", MICROS_A_SECOND)?];
    parts
        .into_iter()
        .try_fold(part("microseconds", 1)?, i128::checked_add)
        .ok_or_else(|| out_of_range("timedelta", object))
}

pub(super) fn out_of_range(expected: &str, object: &Object<'_>) -> Error {
    Error::convert(expected, object.type_name(), "it is out of range")
}

/// Refuses an object unless it is an instance of this class of the module `datetime`.
pub(super) fn require(object: &Object<'_>, class: &str) -> Result<()> {
    let module = object.session().import("datetime")?;
    match instance_of(object, &module.getattr(class)?)? {
        true => Ok(()),
        false => Err(Error::convert(class, object.type_name(), "it is of another type")),
    }
}

/// 1970-01-01 in UTC.
fn epoch(session: &Session) -> Result<Object<'_>> {
    let module = session.import("datetime")?;
    let utc = module.getattr("timezone")?.getattr("utc")?;
    module.call_method("datetime", (1970, 1, 1, 0, 0, 0, 0, utc))
}

/// The microseconds since 1970 of a `datetime` with a time zone.
fn since_epoch(object: &Object<'_>) -> Result<i128> {
    require(object, "datetime")?;
    if object.call_method("utcoffset", ())?.is_none() {
        let reason = "it has no time zone, so it does not name a point in time";
        return Err(Error::convert("a datetime with a time zone", object.type_name(), reason));
    }
    micros(&object.call_method("__sub__", (epoch(object.session())?,))?)
}

impl ToPython for Duration {
    /// A `timedelta`. Its unit is the microsecond: the rest is cut off.
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        let _attached = session.attach();
        timedelta(session, i128::try_from(self.as_micros()).unwrap_or(i128::MAX))
    }
}

impl FromPython<'_> for Duration {
    /// From a `timedelta` that is not negative.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let micros = micros(object)?;
        match duration(micros.unsigned_abs()) {
            _ if micros < 0 => {
                Err(Error::convert("Duration", object.type_name(), "it is negative"))
            }
            Some(duration) => Ok(duration),
            None => Err(out_of_range("Duration", object)),
        }
    }
}

/// So many microseconds, if there are that long spans.
fn duration(micros: u128) -> Option<Duration> {
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    Duration::from_secs(u64::try_from(seconds).ok()?)
        .checked_add(Duration::from_micros(u64::try_from(rest).ok()?))
}

impl ToPython for SystemTime {
    /// A `datetime` in UTC. Its unit is the microsecond: the rest is cut off.
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        let _attached = session.attach();
        let nanos = match self.duration_since(UNIX_EPOCH) {
            Ok(after) => i128::try_from(after.as_nanos()).unwrap_or(i128::MAX),
            Err(error) => -i128::try_from(error.duration().as_nanos()).unwrap_or(i128::MAX),
        };
        let since = timedelta(session, nanos.div_euclid(1000))?;
        epoch(session)?.call_method("__add__", (since,))
    }
}

impl FromPython<'_> for SystemTime {
    /// From a `datetime` with a time zone.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let micros = since_epoch(object)?;
        let time = duration(micros.unsigned_abs()).and_then(|magnitude| match micros < 0 {
            true => UNIX_EPOCH.checked_sub(magnitude),
            false => UNIX_EPOCH.checked_add(magnitude),
        });
        time.ok_or_else(|| out_of_range("SystemTime", object))
    }
}
