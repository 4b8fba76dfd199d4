//! The servers that tests start do what they say, seen with `psql`.

mod postgres;
