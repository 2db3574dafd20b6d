//! A value of an interpreter that a higher floor makes once, and that ends before it.

use super::without_gil;
use crate::Result;
use std::any::Any;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A value of a higher floor.
pub(crate) trait Companion: Any + Send + Sync {
    /// The interpreter has crashed.
    fn crashed(&self);
}

type Value = Box<dyn Companion>;

/// The value, if it was asked for. The interpreter drops it when it begins to end.
#[derive(Default)]
pub(crate) struct LazyValue {
    value: OnceLock<Value>,
    starting: Mutex<()>,
}

impl LazyValue {
    /// The value. The first caller makes it; others wait for that, without a GIL.
    pub(crate) fn get_or_start(&self, start: impl FnOnce() -> Result<Value>) -> Result<&dyn Any> {
        if let Some(value) = self.value.get() {
            return Ok(&**value);
        }
        let _starting =
            without_gil(|| self.starting.lock().unwrap_or_else(PoisonError::into_inner));
        match self.value.get() {
            Some(value) => Ok(&**value),
            None => {
                let value = start()?;
                Ok(&**self.value.get_or_init(|| value))
            }
        }
    }

    /// Tells the value that the interpreter has crashed.
    pub(super) fn crashed(&self) {
        if let Some(value) = self.value.get() {
            value.crashed();
        }
    }

    /// Drops the value: the interpreter ends.
    pub(super) fn end(&mut self) {
        drop(self.value.take());
    }
}
