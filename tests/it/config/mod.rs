//! The config as its users meet it: its schema, what explains a request by it, what compares it with a
//! register, and what happens when it changes under a running instance.
//!
//! What always holds: the real binary, real files, real sockets.
//!
//! What lives elsewhere: what each field means and how it is refused is tested beside the parser.

mod confirmed;
mod explain;
mod profiles;
mod reload;
mod schema;
