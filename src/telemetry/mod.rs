//! What an operator sees from outside: log lines, metrics, and error chains in words.
//!
//! What always holds: no body, no credential and no raw key enters a log line or a metric; no metric
//! carries a label with a resource, an operation or a customer in it.
//!
//! What it does not do: decide what is worth telling. Each room logs once, where it deals with it.

pub mod errors;
pub mod logs;
pub mod metrics;
