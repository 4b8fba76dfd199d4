//! What the rules find, counted and kept: the report; and effects of mode `observe`, judged beside
//! their way.
//!
//! What always holds: an effect of mode `observe` is forwarded whatever is found, and nothing waits
//! for the finding. Nothing that is found there is written to the register, so that no mark, operation
//! or note of it can ever refuse anybody: what enforcing begins with is what enforcing has seen. Not
//! even the register's failure is noticed on the way.
//!
//! What it does not do: forward (`proxy`), or decide (`protocol`; the same function judges here).

pub mod counts;
pub mod file;
pub mod judge;
mod shadow;
pub mod signs;
pub mod watch;
