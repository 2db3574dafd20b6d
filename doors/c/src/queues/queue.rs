//! Queues between the program and all interpreters.

use super::channel::{Channel, Message};
use crate::boundary::{
    Failure, array, copied, free, given, guarded, hz_error, hz_status, not_null, slot, write,
};
use crate::memory::{KeptMemory, hz_memory, memory_at};
use crate::shared::{Numbered, Registry};
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

/// A queue of messages, which the program and all interpreters of all pools may use, whatever their Python's version.
/// Any thread may use and free it. Its messages are freed with the last reference to it.
pub struct hz_queue(Arc<Numbered<Channel>>);

/// All queues.
pub(crate) static QUEUES: Registry<Channel> = Registry::new();

/// A message of a queue: bytes, and memory beside them. It does not change, and any thread may use it.
pub struct hz_message(Message);

/// A queue of at most `max_len` messages, of any number if that is 0. The caller owns the result.
#[unsafe(no_mangle)]
pub extern "C" fn hz_queue_new(max_len: usize) -> Box<hz_queue> {
    Box::new(hz_queue(QUEUES.add(Channel::new((max_len > 0).then_some(max_len)))))
}

/// The queue whose hz_queue_id is `id`. The caller owns `queue`, which is NULL, with HZ_OK, if nobody has that queue any
/// more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_queue_from_id(
    id: u64,
    queue: *mut *mut hz_queue,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let queue = slot(queue, "queue")?;
        if let Some(channel) = QUEUES.find(id) {
            queue.put(hz_queue(channel));
        }
        Ok(())
    })
}

/// A number that no other queue of this process has or gets. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_queue_id(queue: Option<&hz_queue>) -> u64 {
    queue.map_or(0, |queue| queue.0.id())
}

/// The most messages that it holds. 0 is any number, and for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_queue_max_len(queue: Option<&hz_queue>) -> usize {
    queue.map_or(0, |queue| queue.0.capacity().unwrap_or(0))
}

/// How many messages it holds just now. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_queue_len(queue: Option<&hz_queue>) -> usize {
    queue.map_or(0, |queue| queue.0.len())
}

/// Puts `len` bytes at `data`, which are copied, and `memory_count` pieces of memory, which are not. Waits for room at
/// most for so long. `is_put` says whether there was room. If so, this has taken the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_queue_put(
    queue: Option<&hz_queue>,
    data: *const c_void,
    len: usize,
    memory: *const hz_memory,
    memory_count: usize,
    milliseconds: u64,
    is_put: *mut bool,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let queue = given(queue, "queue")?;
        let bytes = array(data.cast::<u8>(), len, "data")?;
        let memory = array(memory, memory_count, "memory")?;
        for one in memory {
            memory_at(one.data, one.len)?;
        }
        not_null(is_put, "is_put")?;
        let place = queue.0.reserve(Duration::from_millis(milliseconds));
        write(is_put, "is_put", false)?;
        if let Some(place) = place {
            let data = copied(bytes)?;
            // Nothing fails from here on.
            let memory = memory.iter().map(|one| Arc::new(KeptMemory::lent(one))).collect();
            place.put(Message { data, memory });
            write(is_put, "is_put", true)?;
        }
        Ok(())
    })
}

/// Takes the first message. Waits for one at most for so long. The caller owns `message`, which is NULL, with HZ_OK, if
/// none has come.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_queue_get(
    queue: Option<&hz_queue>,
    milliseconds: u64,
    message: *mut *mut hz_message,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let slot = slot(message, "message")?;
        if let Some(message) = given(queue, "queue")?.0.get(Duration::from_millis(milliseconds)) {
            slot.put(hz_message(message));
        }
        Ok(())
    })
}

/// Gives a reference up. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn hz_queue_free(queue: Option<Box<hz_queue>>) {
    free(queue);
}

/// The first byte of the message's bytes. It lives as long as `message`. NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_message_data(message: Option<&hz_message>) -> *const c_char {
    message.map_or(ptr::null(), |message| message.0.data.as_ptr().cast())
}

/// The number of the message's bytes. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_message_len(message: Option<&hz_message>) -> usize {
    message.map_or(0, |message| message.0.data.len())
}

/// How many pieces of memory the message has. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_message_memory_count(message: Option<&hz_message>) -> usize {
    message.map_or(0, |message| message.0.memory.len())
}

/// A piece of the message's memory, from 0. The caller calls `release` of the result once, with its `context`, on any
/// thread. The memory stays until then, also if the message is freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_message_memory(
    message: Option<&hz_message>,
    index: usize,
    memory: *mut hz_memory,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let pieces = &given(message, "message")?.0.memory;
        let count =
            || Failure::argument(format!("the message has {} pieces of memory", pieces.len()));
        let piece = pieces.get(index).ok_or_else(count)?;
        let (data, len, read_only) = piece.extent();
        not_null(memory, "memory")?;
        let context = Arc::into_raw(piece.clone()).cast_mut().cast();
        let data = data.cast();
        write(memory, "memory", hz_memory { data, len, read_only, release: Some(release), context })
    })
}

/// # Safety
///
/// `context` comes from [`hz_message_memory`], and is used once.
unsafe extern "C" fn release(context: *mut c_void) {
    // SAFETY: as the caller vouches.
    let memory = unsafe { Arc::from_raw(context.cast_const().cast::<KeptMemory>()) };
    free(Some(Box::new(memory)));
}

/// Frees it. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn hz_message_free(message: Option<Box<hz_message>>) {
    free(message);
}
