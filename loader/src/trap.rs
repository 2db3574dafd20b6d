//! Traps: what a call of a function that nobody defines ends in.

use std::collections::HashMap;
use std::ffi::c_void;
use std::io;
use std::path::Path;

use parking_lot::Mutex;

use crate::thunk::{Interposition, Thunks};

struct Missing {
    object: String,
    symbol: String,
}

static TRAPS: Mutex<Option<HashMap<(String, String), Thunks>>> = Mutex::new(None);

/// The address of a function that names `symbol` and ends the process, as the system loader does
/// when lazy binding fails ("symbol lookup error", exit status 127).
pub(crate) fn for_symbol(object: &Path, symbol: &str) -> io::Result<usize> {
    let key = (object.display().to_string(), symbol.to_owned());
    let mut traps = TRAPS.lock();
    let traps = traps.get_or_insert_default();
    if let Some(thunk) = traps.get(&key) {
        return Ok(thunk.addresses[0]);
    }
    // The code that holds this address is never unmapped before the process ends.
    let missing = Box::leak(Box::new(Missing { object: key.0.clone(), symbol: key.1.clone() }));
    let target =
        Interposition::with_context(called as *const c_void, 0, missing as *const Missing as usize);
    let thunks = Thunks::generate(&[target])?;
    let address = thunks.addresses[0];
    traps.insert(key, thunks);
    Ok(address)
}

extern "C" fn called(missing: &Missing) -> ! {
    eprintln!("{}: symbol lookup error: undefined symbol: {}", missing.object, missing.symbol);
    // SAFETY: ends the process without running anything of it: there is no caller to return to.
    unsafe { libc::_exit(127) }
}
