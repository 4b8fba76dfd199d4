//! The proofs of the rules: a page for people, checked against what the model check finds.
//!
#![doc = include_str!("proofs.md")]
