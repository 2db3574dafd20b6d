//! Signals of a process that runs several python commands at once: each command sets actions as if it was alone.
//!
//! The process has one action for a signal. Here each command has a table of its own ([`table`]), which answers its calls of
//! `sigaction` ([`answers`]). If a command has a handler for a signal, the process's handler ([`process`]) is [`dispatch`]: it
//! passes a signal for the process on to the main thread of each command that handles it ([`relay`]), so that a system call
//! there is interrupted. CPython's own handler then notes the signal (`trip_signal`, Modules/signalmodule.c). A signal for one
//! thread (`raise`, `pthread_kill`) is for the command of that thread.

mod answers;
mod dispatch;
mod process;
mod relay;
mod table;
mod timers;

pub(crate) use table::Signals;
