//! Dispatch where several processes share a register, on a real server.

mod abroad;
