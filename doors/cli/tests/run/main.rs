//! `hydrozoa run` as a process: what applications get and clients see, whatever either does.

mod asgi;
mod client;
mod clients;
mod files;
mod frameworks;
mod life;
mod messages;
mod metrics;
mod network;
mod process;
mod reloading;
mod rules;
mod smuggling;
mod upheaval;
mod websockets;
mod wsgi;
