//! A connection whose client must read.

use crate::guard::StreamWatch;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// Makes a write that has no progress for so long an error.
pub(crate) struct WriteTimeout {
    patience: Duration,
    /// Runs while a write waits.
    waits: Option<Pin<Box<Sleep>>>,
}

impl WriteTimeout {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, waits: None }
    }
}

impl StreamWatch for WriteTimeout {
    fn written(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if outcome.is_ready() {
            self.waits = None;
            return outcome;
        }
        let patience = self.patience;
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waits.as_mut().poll(context));
        let words = format!("the client has read nothing for {} s", patience.as_secs_f64());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, words)))
    }
}
