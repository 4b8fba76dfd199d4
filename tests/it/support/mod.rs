//! What every story stands on: a scripted upstream, a slow network, the real proxy, a caller.
//!
//! What always holds: everything is observed on raw sockets or through the proxy's public surface;
//! nothing here knows the insides of the crate.
//!
//! What it does not do: assert. The stories do.

pub mod call;
pub mod demo;
pub mod dice;
pub mod disk;
pub mod gate;
pub mod http;
pub mod link;
pub mod node;
pub mod ports;
pub mod proxy;
pub mod python;
pub mod register;
pub mod script;
pub mod secured;
pub mod setup;
pub mod tls;
pub mod upstream;

mod tests;
