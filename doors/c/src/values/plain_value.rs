//! Values on their way out of Python.

use super::value::{hz_value, hz_value_data, hz_value_kind as Kind};
use crate::boundary::free;
use runtime::Value;
use runtime::convert::Integer;
use std::ptr;

/// A copy of a value that consists of None, bool, int, float, str, bytes, list, tuple and dict. It belongs to no
/// interpreter, does not change, and any thread may use it.
pub struct hz_plain {
    root: hz_value,
    /// The values' data. None of these boxes changes.
    #[expect(dead_code, reason = "held for its drop")]
    memory: ValueData,
}

// SAFETY: the pointers lead to the boxes beside them, which do not change and go where this goes.
unsafe impl Send for hz_plain {}
// SAFETY: as above.
unsafe impl Sync for hz_plain {}

#[derive(Default)]
struct ValueData {
    bytes: Vec<Box<[u8]>>,
    items: Vec<Box<[hz_value]>>,
}

impl hz_plain {
    pub(crate) fn new(value: Value) -> Self {
        let mut memory = ValueData::default();
        let root = memory.value(value);
        Self { root, memory }
    }
}

impl ValueData {
    fn value(&mut self, value: Value) -> hz_value {
        match value {
            Value::Bool(value) => integer(Kind::HZ_VALUE_BOOL, value.into()),
            Value::Int(value) => self.int(&value),
            Value::Float(real) => made(Kind::HZ_VALUE_FLOAT, 0, hz_value_data { real }),
            Value::Str(text) => {
                let len = text.len();
                // So that a text without zeros is a text of C.
                let mut bytes = text.into_bytes();
                bytes.push(0);
                let text = self.bytes(bytes).cast();
                made(Kind::HZ_VALUE_STR, len, hz_value_data { text })
            }
            Value::Bytes(bytes) => {
                let len = bytes.len();
                let bytes = self.bytes(bytes);
                made(Kind::HZ_VALUE_BYTES, len, hz_value_data { bytes })
            }
            Value::List(items) => self.items(Kind::HZ_VALUE_LIST, items.len(), items),
            Value::Tuple(items) => self.items(Kind::HZ_VALUE_TUPLE, items.len(), items),
            Value::Dict(pairs) => {
                let len = pairs.len();
                let items = pairs.into_iter().flat_map(|(key, value)| [key, value]);
                self.items(Kind::HZ_VALUE_DICT, len, items)
            }
            // `None`; the runtime converts to no other kind of value.
            _ => integer(Kind::HZ_VALUE_NONE, 0),
        }
    }

    fn int(&mut self, value: &Integer) -> hz_value {
        if let Ok(small) = i64::try_from(value) {
            return integer(Kind::HZ_VALUE_INT, small);
        }
        let bytes = value.to_le_bytes().to_vec();
        let len = bytes.len();
        let bytes = self.bytes(bytes);
        made(Kind::HZ_VALUE_BIG_INT, len, hz_value_data { bytes })
    }

    fn bytes(&mut self, bytes: Vec<u8>) -> *const u8 {
        self.bytes.push(bytes.into());
        self.bytes.last().map_or(ptr::null(), |bytes| bytes.as_ptr())
    }

    fn items(
        &mut self,
        kind: Kind,
        len: usize,
        items: impl IntoIterator<Item = Value>,
    ) -> hz_value {
        let items: Box<[hz_value]> = items.into_iter().map(|item| self.value(item)).collect();
        self.items.push(items);
        let items = self.items.last().map_or(ptr::null(), |items| items.as_ptr());
        made(kind, len, hz_value_data { items })
    }
}

fn integer(kind: Kind, integer: i64) -> hz_value {
    made(kind, 0, hz_value_data { integer })
}

fn made(kind: Kind, len: usize, data: hz_value_data) -> hz_value {
    hz_value { kind: kind as u32, len, data }
}

/// The value. It lives as long as `plain`, with all that it refers to. It may be an argument of a call in any
/// interpreter. A zero that does not count follows each text. NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_plain_value(plain: Option<&hz_plain>) -> *const hz_value {
    plain.map_or(ptr::null(), |plain| &raw const plain.root)
}

/// Frees it. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn hz_plain_free(plain: Option<Box<hz_plain>>) {
    free(plain);
}
