//! Web applications of Python, by WSGI (PEP 3333) or ASGI 3, whose workers are interpreters of one process.
//!
//! The connections are those of [`hydrozoa_server::http`]. A [`Service`] answers their requests by a [`Server`]'s workers.
//!
//! | files | hold |
//! |---|---|
//! | `settings`, `error`, `forwarded`, `queue`, `replacements` | what a server is told, and its errors; who the client is; requests that wait; workers that are to be replaced |
//! | `file`, `response`, `websocket`, `exchange`, `request`, `body` | a file as a body; a response; a WebSocket; one request with its response between both sides; what an application gets of a request |
//! | `host`, `local`, `worker`, `wsgi`, `asgi`, `loading`, `fleet` | the functions that Python calls; event loops that serve connections; an interpreter with the application; requests in it; the start of all workers, and their replacement |
//! | `exposition`, `scrape` | what applications count with prometheus_client, in all workers |
//! | `access_log`, `served`, `roster`, `figures`, `addressed`, `service`, `server` | what is logged and counted; whether a request says what it is for; from a connection to a worker and back; all together |

#![warn(missing_docs)]

mod access_log;
mod addressed;
mod asgi;
mod body;
mod error;
mod exchange;
mod exposition;
mod figures;
mod file;
mod fleet;
mod forwarded;
mod host;
mod loading;
mod local;
mod queue;
mod replacements;
mod request;
mod response;
mod roster;
mod scrape;
mod served;
mod server;
mod service;
mod settings;
mod websocket;
mod worker;
mod wsgi;

pub use access_log::{AccessFormat, AccessLog};
pub use error::Error;
pub use forwarded::{Proxies, ProxyError};
pub use response::{ResponseBody, Unfinished};
pub use server::{Reload, Server};
pub use service::Service;
pub use settings::{Interface, Lifespan, Loop, Settings};
